#include "agent/diagnosis/rule_search.h"

#include <algorithm>
#include <cstdint>
#include <variant>

#include "agent/diagnosis/pattern.h"

namespace ddprun::agent {

using rendezvous::FailureRule;

namespace {

bool found_in_lines(const std::string& pattern, const std::vector<std::string>& lines, SearchBudget& budget) {
  const auto compiled = Pattern::compile(pattern);
  const auto* usable = std::get_if<Pattern>(&compiled);
  const auto has_it = [&](const std::string& line) { return usable->found_in(line, budget); };
  return usable && std::any_of(lines.begin(), lines.end(), has_it);
}

}  // namespace

RuleSearch search_rules(const std::vector<FailureRule>& rules, rendezvous::FailureClass kind,
                        const rendezvous::ExitStatus& status,
                        const std::function<std::vector<std::string>()>& last_lines) {
  RuleSearch search;
  std::optional<std::vector<std::string>> lines;
  const auto patterns =
      std::count_if(rules.begin(), rules.end(), [](const FailureRule& rule) { return !rule.pattern.empty(); });
  search.match = first_match(rules, kind, status, [&](const FailureRule& rule) {
    SearchBudget share{SearchBudget::kLine / static_cast<std::uint64_t>(patterns)};
    if (!lines) lines = last_lines();
    const bool found = found_in_lines(rule.pattern, *lines, share);
    if (!found && share.spent()) search.too_slow.push_back(rule);
    return found;
  });
  return search;
}

}  // namespace ddprun::agent
