// --allow-chaos: the faults that a user has this node and its workers suffer (rendezvous/coordination/inquiry/fault.h).
// The coordinator says which. `fault_table` decides what is to be done when; this does it, and undoes it.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <sys/resource.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/faults/fault_table.h"

namespace ddprun::agent {

class Faults {
 public:
  struct Hooks {
    std::function<void(const std::string& line)> print;
    std::function<std::optional<pid_t>(int local_rank)> worker;  // empty: it has ended
    std::function<bool()> suspended;                             // the workers, by a user: they stay stopped
    std::function<void(Duration)> cut;                           // this node's connection to the coordinator
    std::function<bool()> preempt;                               // false: the node leaves already
  };
  Faults(asio::io_context& io, bool allowed, Hooks hooks);

  // `first_rank`: of this node in the running round; empty: the fault's round does not run here.
  void inject(const rendezvous::Fault& fault, std::optional<int> first_rank);
  // The round is over: what lasts is undone.
  void end();
  // The last fault that was not done here; 0: none. The coordinator is told with the node's status.
  std::uint64_t declined() const { return declined_; }

 private:
  std::string try_to_inject(const rendezvous::Fault& fault, std::optional<int> first_rank);  // why not; empty: done
  void carry_out(const std::vector<FaultTable::Deed>& deeds);
  void await();

  const bool allowed_;
  const Hooks hooks_;
  asio::steady_timer timer_;
  FaultTable table_;
  std::uint64_t declined_ = 0;
  std::map<pid_t, rlim_t> memory_limits_, file_limits_;  // of workers, before a fault
};

}  // namespace ddprun::agent
