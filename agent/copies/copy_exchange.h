// Copies snapshots in memory between this node's agent and others, in a thread of its own: sends those of this node's
// workers to the next node of the round, takes those of the node before, gives what other agents ask for, and fetches
// what this node's ranks lack before a round.
//
// Connections are opened and authenticated elsewhere. A snapshot that is being sent goes at kCopyRate at most, and the
// thread gives way to the workers. What belongs to an older round than that of the last begin() changes nothing. A peer
// that reads nothing for stall_max, or for which too much waits, is disconnected.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/copies/copy_protocol.h"
#include "rendezvous/base/time.h"
#include "rendezvous/memory/copy_memory.h"
#include "rendezvous/peer/released_peer.h"
#include "rendezvous/store/loop_thread.h"
#include "rendezvous/store/peer_stream.h"

namespace ddprun::agent {

constexpr std::uint32_t kCopyRate = 256 << 20;  // bytes a second: a fifth of a network of 10 Gbit/s

class CopyExchange {
 public:
  struct Hooks {  // called in its thread
    // Once for each fetch(), with its `from`, and each copy_here(), without; `why` empty: all of it is here.
    std::function<void(int round, const std::string& from, const std::string& why)> on_fetched;
    std::function<void(int round)> on_neighbour_lost;
    std::function<void(int round)> on_refused;  // the next node has no room for the snapshots of one of our ranks
    std::function<void(const std::string& line)> log;  // "disconnected node3: it read nothing for 10 s"
  };
  struct Wanted {
    int place = 0;  // the local rank that needs it
    CopyLabel label;
  };
  // `memory` must outlive it.
  CopyExchange(CopyMemory& memory, Hooks hooks, Duration stall_max = std::chrono::seconds(10));
  ~CopyExchange();
  // Empty: it runs. Else why it has no thread yet, and all waits: call it again.
  [[nodiscard]] std::string start() { return loop_.begin(); }

  // From any thread, each carried out in order. A new round: what was under way for an older one ends. `kept`: what its
  // ranks go on from, which is not overwritten by what is fetched.
  void begin(int round, const std::optional<CopyMemory::Stamp>& kept);
  void fetch(int round, const std::string& from, std::vector<Wanted> wanted, rendezvous::ReleasedPeer source);
  void copy_here(int round, std::vector<Wanted> wanted);  // this node has it, in another slot
  void copy_to(const CopyMemory::Round& round, rendezvous::ReleasedPeer neighbour);
  void add_caller(rendezvous::ReleasedPeer peer);

 private:
  enum class Purpose { caller, source, neighbour };
  struct Sending {
    CopyMemory::Kept kept;
    std::uint64_t sent = 0;
  };
  struct Receiving {
    std::optional<int> slot;  // empty: it is refused
    std::uint64_t received = 0;
  };
  struct Link {
    Link(Purpose of, int in_round, rendezvous::ReleasedPeer peer)
        : purpose(of), round(in_round), stream(std::move(peer)) {}
    Purpose purpose;
    int round;
    rendezvous::PeerStream stream;
    CopyReader reader = {};
    std::optional<Sending> sending = {};
    std::optional<Receiving> receiving = {};
    std::deque<CopyLabel> asked = {};                 // a caller's, after the one that is being sent
    std::string from = {};                            // a source's name
    std::deque<Wanted> wanted = {};                   // from it; the first one has been asked for
    CopyMemory::Round ranks = {};                     // whose snapshots a neighbour gets
    std::optional<CopyMemory::Kept> unanswered = {};  // by a neighbour
    TimePoint deadline = TimePoint::max();            // a source's
    TimePoint reads_until = TimePoint::max();         // the peer has to read something of what waits for it
    std::uint64_t sent = 0;                           // when that was set
    std::uint32_t awaited = 0;
    bool gives_snapshots = false;  // a caller, those of its workers
    std::string over = {};         // why it is to be closed
  };

  void turn();
  TimePoint next_deadline() const;
  void add(Purpose purpose, int round, rendezvous::ReleasedPeer peer, const std::function<void(Link&)>& prepare);
  void serve(std::uint64_t tag, std::uint32_t events);
  void take(Link& link, std::string_view bytes);
  void on_part(Link& link, const CopyPart& part);
  void on_head(Link& link, const CopyHead& head);
  void begin_receiving(Link& link, const CopyHead& head);
  void receive(Link& link, std::string_view bytes);
  void end_receiving(Link& link, const CopyHead& head, bool whole);
  void on_answer(Link& link, const CopyHead& head);
  void ask_next(Link& link);
  void send_asked(Link& link);
  void send_newest(Link& link);
  void begin_sending(Link& link, const CopyMemory::Kept& kept, std::uint32_t place);
  void send_chunks(Link& link);
  void update(std::uint64_t tag, Link& link);
  void limit_reading(Link& link) const;
  void give_up(Link& link, const std::string& why);
  void close(std::uint64_t tag);
  void reply(Link& link, CopyKind kind, const CopyLabel& label);
  std::string copy_slot(const Wanted& wanted);

  CopyMemory& memory_;
  const Hooks hooks_;
  const Duration stall_max_;
  int round_ = 0;
  std::optional<CopyMemory::Stamp> kept_;
  std::uint64_t last_tag_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Link>> links_;
  TimePoint look_at_ = TimePoint::max();  // when to look for new snapshots
  std::unique_ptr<char[]> chunk_;
  rendezvous::LoopThread loop_;
};

}  // namespace ddprun::agent
