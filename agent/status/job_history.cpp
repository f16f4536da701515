#include "agent/status/job_history.h"

#include <algorithm>
#include <utility>

namespace ddprun::agent {
namespace {

using nlohmann::json;

constexpr const char* kOtherCauses = "other";

std::optional<double> number_at(const json& object, const char* name) {
  if (!object.is_object()) return {};
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? std::nullopt : std::optional(found->get<double>());
}

json or_null(const std::optional<double>& value) { return value ? json(*value) : json(); }

void add_cause(HistoryRounds& rounds, const std::string& cause, int count) {
  const bool room = rounds.causes.contains(cause) || rounds.causes.size() + 1 < JobHistory::kCausesMax;
  rounds.causes[room ? cause : kOtherCauses] += count;
}

std::map<std::string, int> restarts_in(const json& status) {
  std::map<std::string, int> out;
  const json restarts = status.value("restarts", json::object());
  const json by_cause = restarts.value("by_cause", json::object());
  for (const auto& [cause, count] : by_cause.items())
    if (count.is_number_integer()) out[cause] = count.get<int>();
  return out;
}

// Of which there are more now; "" if that is not known.
std::string new_cause(const std::map<std::string, int>& before, const std::map<std::string, int>& now) {
  for (const auto& [cause, count] : now)
    if (const auto old = before.find(cause); count > (old == before.end() ? 0 : old->second)) return cause;
  return "";
}

}  // namespace

HistorySample sample_of(const json& status, UnixTime now) {
  HistorySample out{.at = now};
  out.step = number_at(status, "step");
  out.steps_per_second = number_at(status, "steps_per_second");
  out.loss = number_at(status, "loss");
  out.useful = number_at(status.value("time", json()), "useful_share");
  return out;
}

void JobHistory::note(const json& status, UnixTime now) {
  if (!status.is_object()) return;
  const auto round = number_at(status, "round");
  auto restarts = restarts_in(status);
  const int number = static_cast<int>(round.value_or(0));
  const bool runs = status.value("state", "") == "running" || status.value("state", "") == "starting";
  if (number > 0 && runs && (rounds_.empty() || rounds_.back().last < number)) {
    if (!rounds_.empty()) round_ended(rounds_.back().last, new_cause(restarts_, restarts), now);
    round_formed(number, now);
  }
  if (round) restarts_ = std::move(restarts);
  add(sample_of(status, now));
}

// The newest one is always there; it makes way for the next one if it came too early to be kept.
void JobHistory::add(const HistorySample& sample) {
  const std::size_t count = samples_.size();
  if (count >= 2 && samples_[count - 1].at - samples_[count - 2].at < apart_) samples_.pop_back();
  samples_.push_back(sample);
  if (samples_.size() <= kSamplesMax) return;
  std::vector<HistorySample> thinned;
  for (std::size_t i = 0; i < samples_.size(); i += 2) thinned.push_back(samples_[i]);
  if (samples_.size() % 2 == 0) thinned.push_back(samples_.back());
  const UnixTime span = thinned.back().at - thinned.front().at;
  apart_ = span / static_cast<std::int64_t>(thinned.size());
  samples_ = std::move(thinned);
}

void JobHistory::round_formed(int number, UnixTime now) {
  if (!rounds_.empty() && rounds_.back().last >= number) return;
  if (!rounds_.empty() && !rounds_.back().end) rounds_.back().end = now;
  rounds_.push_back({.first = number, .last = number, .start = now});
  ++rounds_changed_;
  merge_old_rounds();
}

void JobHistory::round_ended(int number, const std::string& cause, UnixTime now) {
  if (rounds_.empty() || rounds_.back().last != number || rounds_.back().end) return;
  rounds_.back().end = now;
  add_cause(rounds_.back(), cause.empty() ? "not known" : cause, 1);
  ++rounds_changed_;
}

// Neighbours of the older half become one.
void JobHistory::merge_old_rounds() {
  if (rounds_.size() <= kRoundsMax) return;
  std::vector<HistoryRounds> merged;
  const std::size_t older = kRoundsMax / 2;
  for (std::size_t i = 0; i < older; i += 2) {
    HistoryRounds both = rounds_[i];
    both.last = rounds_[i + 1].last;
    both.end = rounds_[i + 1].end;
    for (const auto& [cause, count] : rounds_[i + 1].causes) add_cause(both, cause, count);
    merged.push_back(std::move(both));
  }
  merged.insert(merged.end(), rounds_.begin() + older, rounds_.end());
  rounds_ = std::move(merged);
}

json to_json(const HistorySample& sample) {
  return json::array({sample.at.count(), or_null(sample.step), or_null(sample.steps_per_second), or_null(sample.loss),
                      or_null(sample.useful)});
}

json to_json(const std::vector<HistoryRounds>& rounds) {
  json out = json::array();
  for (const HistoryRounds& one : rounds)
    out.push_back({{"first", one.first},
                   {"last", one.last},
                   {"start", one.start.count()},
                   {"end", one.end ? json(one.end->count()) : json()},
                   {"causes", one.causes}});
  return out;
}

}  // namespace ddprun::agent
