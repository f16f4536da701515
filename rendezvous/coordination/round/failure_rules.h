// Rules of the job's file: what is done about a failure. In order; the first one that matches wins, and where none
// does, the ledger decides.
//
// Values. Patterns are searched by the caller, which has the lines and the regular expressions.
#pragma once
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/failure_class.h"

namespace ddprun::rendezvous {

enum class RuleAction {
  restart,            // as far as the limits allow, also where the same failure has come before any progress
  restart_elsewhere,  // the same, and the failed worker's node is excluded
  requeue,            // the job ends, to be started again
  stop,               // the job ends for good
};
std::string name_of(RuleAction action);
std::optional<RuleAction> rule_action(std::string_view name);
std::vector<std::string> rule_action_names();

// What a failure has to be. An empty condition matches every failure.
struct FailureRule {
  std::set<FailureClass> classes = {};
  std::set<int> exit_codes = {};
  std::set<int> signals = {};
  std::string pattern = {};  // a regular expression for the last lines of stderr
  RuleAction action = RuleAction::restart;
  std::string place = {};  // "job.toml:7"
};

// The action of the rule that matched, and where it is written.
struct RuleMatch {
  RuleAction action = RuleAction::restart;
  std::string place = {};

  friend bool operator==(const RuleMatch&, const RuleMatch&) = default;
};

using FindsPattern = std::function<bool(const FailureRule& rule)>;
std::optional<RuleMatch> first_match(const std::vector<FailureRule>& rules, FailureClass kind, const ExitStatus& status,
                                     const FindsPattern& finds);

// Classes that a rule can be about: not those that are no failure.
std::vector<std::string> classes_for_rules();

// Why one of the rules can never match: its conditions exclude each other, or an earlier rule takes all that it would
// match.
struct UselessRule {
  std::size_t index = 0;
  std::string why;  // "an exit code is never of the class crash"
};
std::vector<UselessRule> useless_rules(const std::vector<FailureRule>& rules);

}  // namespace ddprun::rendezvous
