// Decides for the whole job: who is in the next round with which ranks, when a round is over, whether there is another.
//
// A value, not a service: it owns no clock and no socket. Give it every message in the order of arrival; deliver the
// orders it returns to all agents, in order. It alone holds the restart ledger. On one machine the agent calls it in
// the same process; several nodes add only the wire between.
//
// Not thread-safe. A message that names another round than the current one is out of date and changes nothing.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "rendezvous/ledger.h"
#include "rendezvous/round.h"
#include "rendezvous/time.h"

namespace ddprun {

// From an agent.
struct NodeReady {  // it has no workers and waits for a round
  NodeId node = 0;
  NodeOffer offer;
};
struct NodeRunning {  // all its workers of the round have been exec'd
  NodeId node = 0;
  int round = 0;
};
struct NodeDone {  // all its workers of the round ended well
  NodeId node = 0;
  int round = 0;
};
struct WorkerFailed {
  Failure failure;
  // A step or a snapshot since the round began. Empty: no worker there tells, so that the round's age decides.
  std::optional<bool> progressed = {};
};
struct NodeInterrupted {
  NodeId node = 0;
  int signal = 0;
};
struct CoordinatorTick {};  // next_deadline() has come
using Message = std::variant<NodeReady, NodeRunning, NodeDone, WorkerFailed, NodeInterrupted, CoordinatorTick>;

// To all agents.
struct FormRound {
  Round round;
};
struct EndRound {  // stop the round's workers, then be ready for another
  int round = 0;
  std::string reason;
};
struct EndJob {
  Outcome outcome;
};
using Order = std::variant<FormRound, EndRound, EndJob>;

struct RoundPolicy {
  int nodes = 1;
  RestartPolicy restarts = {};
};

class Coordinator {
 public:
  explicit Coordinator(const RoundPolicy& policy, std::uint64_t jitter_seed = 0);
  // `now` never goes back. After EndJob every answer is empty.
  std::vector<Order> on(const Message& message, TimePoint now);
  // When CoordinatorTick is due; nothing is polled.
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Gathering {
    TimePoint not_before;  // back-off
    std::map<NodeId, NodeOffer> offers;
  };
  struct Running {
    Round round;
    std::set<NodeId> started, done;
    std::optional<TimePoint> all_started_at;
  };
  struct Over {};

  std::vector<Order> handle(Gathering& state, const NodeReady& message, TimePoint now);
  std::vector<Order> handle(Running& state, const NodeRunning& message, TimePoint now);
  std::vector<Order> handle(Running& state, const NodeDone& message);
  std::vector<Order> handle(Running& state, const WorkerFailed& message, TimePoint now);
  std::vector<Order> form_if_complete(Gathering& state, TimePoint now);
  std::vector<Order> end_job(Outcome outcome);
  Round next_round(const std::map<NodeId, NodeOffer>& offers);

  RoundPolicy policy_;
  Ledger ledger_;
  int rounds_ = 0;
  std::variant<Gathering, Running, Over> state_;
};

}  // namespace ddprun
