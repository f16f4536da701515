#include "agent/status/job_history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "agent/status/job_condition.h"
#include "rendezvous/coordination/account/time_account.h"

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

// In the order in which a round spends its time.
constexpr std::array kFirstInARound = [] {
  auto kinds = rendezvous::kTimeKinds;
  std::rotate(kinds.begin(), kinds.begin() + 1, kinds.begin() + 3);  // start, restore, productive
  return kinds;
}();

constexpr std::array<const char*, 6> kMarkNames = {"failure", "restart", "resize", "snapshot", "straggler", "still"};

// Not what is less than a tenth of a second, nor what a standstill that went on has taken back.
json shown_times(const std::map<std::string, double>& spent) {
  constexpr double kShown = 0.1;
  json out = json::object();
  for (const auto& [kind, seconds] : spent)
    if (seconds >= kShown) out[kind] = std::round(seconds * 10) / 10;
  return out;
}

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
  add_times(status, now);
  if (number > 0 && runs && (rounds_.empty() || rounds_.back().last < number)) {
    if (!rounds_.empty()) round_ended(rounds_.back().last, {.cause = new_cause(restarts_, restarts)}, now);
    round_formed(number, static_cast<int>(number_at(status, "world_size").value_or(0)), now);
  }
  if (round) restarts_ = std::move(restarts);
  add_marks(status, stands_still_, now);
  add_sample(status, now);
}

void JobHistory::note_own(const json& status, UnixTime now) {
  add_marks(status, own_stand_still_, now);
  add_sample(status, now);
}

void JobHistory::add_sample(const json& status, UnixTime now) {
  HistorySample sample = sample_of(status, now);
  has_pace_ |= sample.steps_per_second.has_value();
  const bool known = status.value("state", "") != "unknown";
  if (has_pace_ && known && !sample.steps_per_second) sample.steps_per_second = 0;  // nobody does steps
  add(sample);
}

// What has passed since the last status belongs to the last round, as far as that has lasted, and the rest to the one
// before. Steps that turn out to be done again were done in the one before, too.
void JobHistory::add_times(const json& status, UnixTime at) {
  const auto found = status.find("time");
  if (found == status.end() || !found->is_object()) return;
  std::map<std::string, double> now, passed;
  for (const rendezvous::TimeKindName& kind : rendezvous::kTimeKinds) now[kind.name] = found->value(kind.name, 0.0);
  for (const auto& [kind, spent] : now) passed[kind] = spent - (times_.empty() ? spent : times_[kind]);
  times_ = std::move(now);
  if (rounds_.empty()) return;
  const std::string useful = rendezvous::name_of(rendezvous::TimeKind::productive),
                    lost = rendezvous::name_of(rendezvous::TimeKind::lost_work);
  if (passed[lost] > 0 && rounds_.size() > 1 && !rounds_.back().end) {
    std::map<std::string, double>& before = rounds_[rounds_.size() - 2].spent;
    const double moved = std::min(passed[lost], before[useful]);
    before[useful] -= moved;
    before[lost] += moved;
    passed[useful] += moved;
    passed[lost] -= moved;
    ++changes_;
  }
  const bool looked_before = std::exchange(timed_round_, rounds_.back().first) == rounds_.back().first;
  double left = std::chrono::duration<double>(at - rounds_.back().start).count();
  for (const rendezvous::TimeKindName& kind : kFirstInARound) {
    const double spent = passed[kind.name], own = looked_before || rounds_.size() < 2 ? spent : std::min(spent, left);
    left -= std::max(own, 0.0);
    if (own != 0) rounds_.back().spent[kind.name] += own;
    if (spent != own) rounds_[rounds_.size() - 2].spent[kind.name] += spent - own;
  }
}

// The last word of our own ranks and that of all may differ; a mark is made where neither has said so before.
void JobHistory::add_marks(const json& status, bool& stands_still, UnixTime now) {
  if (const auto snapshot = number_at(status, "snapshot_step"); snapshot && snapshot != snapshot_step_) {
    const bool is_first_look = samples_.empty();  // the snapshot may be an old one
    if (!is_first_look && *snapshot > snapshot_step_.value_or(-1))
      mark(MarkKind::snapshot, "step " + std::to_string(static_cast<std::int64_t>(*snapshot)), now);
    snapshot_step_ = std::max(snapshot, snapshot_step_);
  }
  const json condition = status.value("condition", json::object());
  const bool stood_still = stands_still_ || own_stand_still_;
  stands_still = condition.value("kind", "") == name_of(Condition::stands_still);
  if (stands_still && !stood_still) mark(MarkKind::still, condition.value("why", ""), now);
}

void JobHistory::mark(MarkKind kind, const std::string& text, UnixTime now) {
  marks_.push_back({now, kind, text});
  ++changes_;
  if (marks_.size() <= kMarksMax) return;
  const auto is_snapshot = [](const HistoryMark& one) { return one.kind == MarkKind::snapshot; };
  if (std::count_if(marks_.begin(), marks_.end(), is_snapshot) < 2) {
    marks_.erase(marks_.begin());
    return;
  }
  bool goes = false;  // every second snapshot
  std::erase_if(marks_, [&](const HistoryMark& one) { return is_snapshot(one) && (goes = !goes); });
}

const HistoryRounds* JobHistory::last_failed() const {
  const auto last = std::find_if(rounds_.rbegin(), rounds_.rend(), [](const auto& one) { return one.failed; });
  return last == rounds_.rend() ? nullptr : &*last;
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

void JobHistory::round_formed(int number, int world_size, UnixTime now) {
  if (!rounds_.empty() && rounds_.back().last >= number) return;
  if (!rounds_.empty() && !rounds_.back().end) rounds_.back().end = now;
  rounds_.push_back({.first = number, .last = number, .start = now});
  ++changes_;
  snapshot_step_.reset();  // its workers report none before they save
  own_stand_still_ = false;
  const int before = std::exchange(world_size_, world_size);
  if (before > 0 && world_size > 0 && before != world_size)
    mark(MarkKind::resize, "world size " + std::to_string(before) + " to " + std::to_string(world_size), now);
  else if (number > 1)
    mark(MarkKind::restart, "round " + std::to_string(number), now);
  merge_old_rounds();
}

void JobHistory::round_ended(int number, const RoundEnding& ending, UnixTime now) {
  if (rounds_.empty() || rounds_.back().last != number || rounds_.back().end) return;
  rounds_.back().end = now;
  add_cause(rounds_.back(), ending.cause.empty() ? "not known" : ending.cause, 1);
  rounds_.back().failed = ending.failed;
  rounds_.back().story = ending.story;
  rounds_.back().rank = ending.rank;
  rounds_.back().node = ending.node;
  ++changes_;
  if (ending.failed) mark(MarkKind::failure, ending.story, now);
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
    for (const auto& [kind, spent] : rounds_[i + 1].spent) both.spent[kind] += spent;
    both.failed |= rounds_[i + 1].failed;
    both.story.clear();
    both.node.clear();
    both.rank.reset();
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
                   {"causes", one.causes},
                   {"story", one.story},
                   {"rank", one.rank ? json(*one.rank) : json()},
                   {"node", one.node},
                   {"spent", shown_times(one.spent)}});
  return out;
}

json to_json(const std::vector<HistoryMark>& marks) {
  json out = json::array();
  for (const HistoryMark& one : marks)
    out.push_back(json::array({one.at.count(), kMarkNames.at(static_cast<std::size_t>(one.kind)), one.text}));
  return out;
}

json to_json(const JobHistory& history) {
  json samples = json::array();
  for (const HistorySample& sample : history.samples()) samples.push_back(to_json(sample));
  return {{"samples", std::move(samples)}, {"marks", to_json(history.marks())}, {"rounds", to_json(history.rounds())}};
}

}  // namespace ddprun::agent
