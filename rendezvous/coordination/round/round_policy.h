// How a job's rounds are formed, and what their ends cost.
#pragma once
#include <optional>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/excluded_hosts.h"
#include "rendezvous/coordination/round/failure_rules.h"
#include "rendezvous/coordination/round/ledger.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

// What is done about ranks that make the others wait (inquiry/straggler.h).
enum class StragglerPolicy { say, off, replace, dry_run };

struct RoundPolicy {
  int nodes_min = 1, nodes_max = 1;
  int spares = 0;            // nodes beyond the most that may join as well, and wait
  bool fixed_ranks = false;  // static: each node has the group rank that it asks for, and spares ask for those above
  RestartPolicy restarts = {};
  std::vector<FailureRule> rules = {};  // for lost nodes; a worker's failure comes with its match
  LedgerRecord earlier_starts = {};     // of this job
  ExclusionPolicy exclusion = {};
  StragglerPolicy stragglers = StragglerPolicy::say;
  bool allow_chaos = false;  // users may have the job suffer faults
  // The job ends if no round forms for this long.
  Duration join_timeout = std::chrono::seconds(600);
  // How long the first round waits for more nodes once it could form.
  Duration last_call = std::chrono::seconds(30);
  // The record is kept outside of the nodes, where coordinators are found, too (etcd): no node has a vote.
  bool record_outside = false;
};

// A user has resized the job.
inline void take_range(const NodeRange& range, RoundPolicy& policy, std::optional<NodeRange>& resized) {
  policy.nodes_min = range.least;
  policy.nodes_max = range.most;
  resized = range;
}

}  // namespace ddprun::rendezvous
