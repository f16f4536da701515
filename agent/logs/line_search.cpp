#include "agent/logs/line_search.h"

#include <utility>
#include <variant>

namespace ddprun::agent {

LineSearch::LineSearch(const std::vector<Wanted>& wanted) {
  for (const Wanted& one : wanted) {
    Tried& tried = tried_.emplace_back(Tried{one});
    if (!one.pattern.empty()) tried.pattern = std::get<Pattern>(Pattern::compile(one.pattern));
  }
}

Captures LineSearch::captured_in(std::string_view line) {
  Captures out(tried_.size());
  for (std::size_t i = 0; i < tried_.size(); ++i) out[i] = capture(i, line);
  return out;
}

std::optional<std::string> LineSearch::capture(std::size_t index, std::string_view line) {
  Tried& tried = tried_[index];
  if (!tried.pattern) return {};
  SearchBudget budget;
  auto captured = tried.pattern->captured_in(line, budget);
  if (budget.spent() && ++tried.too_long == kTooLongMax) {
    tried.pattern.reset();
    dropped_.push_back({index, tried.wanted});
  }
  return captured;
}

std::vector<LineSearch::Dropped> LineSearch::take_dropped() { return std::exchange(dropped_, {}); }

}  // namespace ddprun::agent
