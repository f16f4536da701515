// Finds the rule of the job's file that a failure matches, with the last lines of the failed worker.
//
// Pure. The patterns of all rules share one SearchBudget, as the agent's loop waits for the answer.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/failure_rules.h"

namespace ddprun::agent {

struct RuleSearch {
  std::optional<rendezvous::RuleMatch> match = {};
  std::vector<rendezvous::FailureRule> too_slow = {};  // their patterns were not found within their share
};
// Each pattern has the same share of the budget. An invalid one is in no line. `last_lines` is called if a pattern
// needs them.
RuleSearch search_rules(const std::vector<rendezvous::FailureRule>& rules, rendezvous::FailureClass kind,
                        const rendezvous::ExitStatus& status,
                        const std::function<std::vector<std::string>()>& last_lines);

}  // namespace ddprun::agent
