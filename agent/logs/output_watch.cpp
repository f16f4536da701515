#include "agent/logs/output_watch.h"

#include <strings.h>

#include <cstdlib>

namespace ddprun::agent {
namespace {

std::optional<double> number_in(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0' ? std::optional(value) : std::nullopt;
}

}  // namespace

bool ValueTest::holds(const std::string& captured) const {
  if (by == By::any) return true;
  if (by == By::equal) return strcasecmp(captured.c_str(), text.c_str()) == 0;
  const std::optional<double> value = number_in(captured);
  return value && (by == By::above ? *value > number : *value < number);
}

std::optional<ValueTest> read_value_test(const std::string& text) {
  if (text.empty()) return {};
  if (text.front() != '<' && text.front() != '>') return ValueTest{ValueTest::By::equal, text};
  const auto number = number_in(text.substr(1));
  if (!number) return {};
  return ValueTest{text.front() == '>' ? ValueTest::By::above : ValueTest::By::below, {}, *number};
}

std::vector<LineSearch::Wanted> patterns_of(const std::vector<OutputRule>& rules) {
  std::vector<LineSearch::Wanted> out;
  for (const OutputRule& rule : rules) out.push_back({rule.pattern, "the rule at " + rule.place});
  return out;
}

OutputWatch::OutputWatch(const std::vector<OutputRule>& rules) {
  for (const OutputRule& rule : rules) rules_.push_back({rule});
}

void OutputWatch::begin_round() {
  for (Watched& watched : rules_) watched.bad_since.clear();
  last_line_at_.reset();
}

void OutputWatch::worker_ended(int local_rank) {
  for (Watched& watched : rules_) watched.bad_since.erase(local_rank);
}

void OutputWatch::drop(std::size_t rule) { rules_[rule].bad_since.clear(); }

void OutputWatch::take_line(int local_rank, const Captures& captured, TimePoint now) {
  last_line_at_ = now;
  last_writer_ = local_rank;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    Watched& watched = rules_[i];
    if (!captured[i]) continue;
    if (watched.rule.value.holds(*captured[i]))
      watched.bad_since.try_emplace(local_rank, now);
    else if (watched.rule.lasts > Duration::zero())  // else the bad line has been enough
      watched.bad_since.erase(local_rank);
  }
}

std::optional<OutputWatch::Finding> OutputWatch::finding(TimePoint now) const {
  for (const Watched& watched : rules_) {
    if (watched.rule.silent && last_line_at_ && now - *last_line_at_ >= *watched.rule.silent)
      return Finding{last_writer_, watched.rule};
    for (const auto& [local_rank, since] : watched.bad_since)
      if (now - since >= watched.rule.lasts) return Finding{local_rank, watched.rule};
  }
  return {};
}

}  // namespace ddprun::agent
