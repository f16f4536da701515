// What an act of a user does to a job: whether it is done, what follows, and what the coordinator does then.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordination/messages.h"
#include "rendezvous/coordination/round/excluded_hosts.h"
#include "rendezvous/coordination/round/members.h"
#include "rendezvous/coordination/round/round_policy.h"

namespace ddprun::rendezvous {

// The job, which the act may change.
struct ActedOn {
  RoundPolicy& policy;
  Members& members;
  ExcludedHosts& excluded;
  std::optional<NodeRange>& resized;
  const Round* round;  // that is under way; null: none
  bool* paused;        // whether its workers are; null: not all of them have been started
  bool takes_nodes;    // other nodes may join; false: a job of one node
  const std::vector<NodeId>& last_by_rank;
  RecordId record;  // of the last round
  std::function<bool(NodeId)> can_go_on_without;
  std::function<bool(const std::set<NodeId>&)> is_quorum;
  bool has_usable;  // a ready node that is in no round
  TimePoint now;
};

struct ActEffect {
  ActResult result;
  enum class Then {
    nothing,
    round_ends,    // planned, for `reason`; another one follows
    job_ends,      // for `reason`
    advance,       // a round may form now
    leave_out,     // the same, and nodes that are left out are told so
    welcome_back,  // a node may take part again
  } then = Then::nothing;
  std::string reason = {};
  std::optional<KeepRange> keep = {};  // before the answer: who asks may take what is done for what is kept
  std::optional<Order> order = {};     // after it
};
ActEffect effect_of(const Act& act, const ActedOn& job);

}  // namespace ddprun::rendezvous
