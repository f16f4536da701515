#include "rendezvous/coordination/round/failure_rules.h"

#include <algorithm>
#include <array>

namespace ddprun::rendezvous {
namespace {

struct NamedAction {
  RuleAction action;
  const char* name;
};
constexpr std::array<NamedAction, 4> kActions = {{{RuleAction::restart, "restart"},
                                                  {RuleAction::restart_elsewhere, "restart-elsewhere"},
                                                  {RuleAction::requeue, "requeue"},
                                                  {RuleAction::stop, "stop"}}};

constexpr std::array kRuleClasses = {FailureClass::usage,         FailureClass::error,    FailureClass::crash,
                                     FailureClass::out_of_memory, FailureClass::hang,     FailureClass::start,
                                     FailureClass::unkillable,    FailureClass::lost_node};

// Classes that a worker's own end can have.
bool by_exit_code(FailureClass kind) {
  return kind != FailureClass::hang && kind != FailureClass::unkillable && kind != FailureClass::lost_node;
}
bool by_signal(FailureClass kind) {
  return kind == FailureClass::crash || kind == FailureClass::out_of_memory || kind == FailureClass::hang;
}

bool any_of(const std::set<FailureClass>& classes, bool (*test)(FailureClass)) {
  return classes.empty() || std::any_of(classes.begin(), classes.end(), test);
}

template <class Value>
bool covers(const std::set<Value>& earlier, const std::set<Value>& later) {
  return earlier.empty() ||
         (!later.empty() && std::includes(earlier.begin(), earlier.end(), later.begin(), later.end()));
}

bool covers(const FailureRule& earlier, const FailureRule& later) {
  return covers(earlier.classes, later.classes) && covers(earlier.exit_codes, later.exit_codes) &&
         covers(earlier.signals, later.signals) && (earlier.pattern.empty() || earlier.pattern == later.pattern);
}

std::string contradiction(const FailureRule& rule) {
  if (!rule.exit_codes.empty() && !rule.signals.empty())
    return "a worker ends by an exit code or by a signal, never by both";
  if (!rule.exit_codes.empty() && !any_of(rule.classes, by_exit_code))
    return "failures of that class have no exit code";
  if (!rule.signals.empty() && !any_of(rule.classes, by_signal)) return "a signal is never of that class";
  const bool lost = rule.classes.size() == 1 && rule.classes.contains(FailureClass::lost_node);
  if (lost && !rule.pattern.empty()) return "of a lost node no lines of stderr are known";
  if (rule.classes.size() == 1 && rule.classes.contains(FailureClass::usage) && !rule.exit_codes.empty() &&
      !rule.exit_codes.contains(2))
    return "the class usage is exit code 2 before any progress";
  return {};
}

}  // namespace

std::string name_of(RuleAction action) {
  for (const NamedAction& known : kActions)
    if (known.action == action) return known.name;
  return {};
}

std::optional<RuleAction> rule_action(std::string_view name) {
  for (const NamedAction& known : kActions)
    if (known.name == name) return known.action;
  return {};
}

std::vector<std::string> rule_action_names() {
  std::vector<std::string> out;
  for (const NamedAction& known : kActions) out.emplace_back(known.name);
  return out;
}

std::vector<std::string> classes_for_rules() {
  std::vector<std::string> out;
  for (const FailureClass kind : kRuleClasses) out.push_back(name_of(kind));
  return out;
}

std::optional<RuleMatch> first_match(const std::vector<FailureRule>& rules, FailureClass kind, const ExitStatus& status,
                                     const FindsPattern& finds) {
  for (const FailureRule& rule : rules) {
    if (!rule.classes.empty() && !rule.classes.contains(kind)) continue;
    if (!rule.exit_codes.empty() && !rule.exit_codes.contains(status.code)) continue;
    if (!rule.signals.empty() && !rule.signals.contains(status.signal)) continue;
    if (!rule.pattern.empty() && !finds(rule)) continue;
    return RuleMatch{rule.action, rule.place};
  }
  return {};
}

std::vector<UselessRule> useless_rules(const std::vector<FailureRule>& rules) {
  std::vector<UselessRule> out;
  for (std::size_t i = 0; i < rules.size(); ++i) {
    if (std::string why = contradiction(rules[i]); !why.empty()) {
      out.push_back({i, std::move(why)});
      continue;
    }
    const auto end = rules.begin() + static_cast<std::ptrdiff_t>(i);
    const auto hider =
        std::find_if(rules.begin(), end, [&](const FailureRule& earlier) { return covers(earlier, rules[i]); });
    if (hider != end) out.push_back({i, "the rule at " + hider->place + " takes every failure that it would match"});
  }
  return out;
}

}  // namespace ddprun::rendezvous
