// The snapshots in memory of one node (--memory-snapshots): the memory in which its workers keep them, and their copies
// from and for other nodes.
//
// For the thread of the io_context; hooks are called there except `print`.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>

#include "agent/copies/node_copies.h"
#include "rendezvous/memory/snapshot_memory.h"

namespace ddprun::agent {

class NodeMemory {
 public:
  struct Hooks {
    std::function<std::unique_ptr<rendezvous::LinkDialer>(const rendezvous::ControlAddress&, NodeCopies::LinkHooks)>
        dial;                                                // NodeCopies::Hooks::dial
    std::function<void(int round)> confirm;                  // its workers may start here
    std::function<void(const std::string& line)> print;      // from any thread
    std::function<void(const std::string& why)> on_failure;  // there are no snapshots in memory
  };
  // `bytes`: for the snapshots; 0: none are kept.
  NodeMemory(asio::io_context& io, std::uint64_t bytes, Hooks hooks);

  // Descriptors for the workers; -1: none.
  int snapshots_fd() const { return snapshots_ ? snapshots_->fd() : -1; }
  int copies_fd() const { return copies_ ? copies_->fd() : -1; }
  void make(int workers);
  // No worker runs. What is kept stays.
  void change_workers(int workers);
  void take_seat(const rendezvous::Seat& seat);
  // Now, or when the snapshots that the round's ranks lack here have come.
  void confirm_when_ready(int round);
  void begin_round(const rendezvous::Seat& seat);
  void add_caller(rendezvous::ReleasedPeer peer);
  std::vector<rendezvous::HeldSnapshot> held() const;
  // That it takes of this machine, in bytes.
  std::uint64_t bytes_in_use() const;
  // What is kept goes when no worker runs any more: give_back().
  void give_back_later() { goes_ = true; }
  // False: nothing was to be given back. Else there is new memory, for as many workers. No worker runs.
  bool give_back(int workers);
  void end_copies() { copies_.reset(); }

 private:
  void use(SnapshotMemory memory, int workers);

  asio::io_context& io_;
  const std::uint64_t bytes_;
  const Hooks hooks_;
  std::optional<SnapshotMemory> snapshots_;
  std::optional<NodeCopies> copies_;
  std::optional<int> unconfirmed_round_;
  bool goes_ = false;
};

}  // namespace ddprun::agent
