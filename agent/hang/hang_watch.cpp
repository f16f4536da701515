#include "agent/hang/hang_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ddprun::agent {
namespace {

using rendezvous::Activity;

constexpr std::chrono::milliseconds kLookEvery{250};
constexpr std::chrono::milliseconds kLateMax{750};  // a look that comes later than that: the agent did not run
constexpr std::chrono::seconds kStepPartFloor{2}, kSaveFloor{30};
constexpr std::chrono::minutes kUnknown{10};
constexpr std::chrono::seconds kNewsEvery{10};
constexpr std::chrono::minutes kPatience{1}, kPatienceMax{10};  // see patience()
constexpr int kKnownPlaceFactor = 10;
constexpr std::uint64_t kWarmUpSteps = 10;
constexpr std::size_t kPartsKept = 256, kStepsKept = 64, kSavesKept = 8;
constexpr int kStepFactor = 3, kPartFactor = 2, kSaveFactor = 5;
constexpr double kHighShare = 0.99, kHalf = 0.5, kAll = 1;
constexpr double kGrown = 1.5;
constexpr std::chrono::hours kLearnedMax{240};  // so that a sum of some of them is a time

bool is_step_part(Activity activity) {
  return activity == Activity::load || activity == Activity::compute || activity == Activity::wait;
}

bool saves_or_evaluates(Activity activity) { return activity == Activity::save || activity == Activity::evaluate; }

Duration scaled(double factor, Duration time) {
  const std::chrono::duration<double> out = factor * time;
  return out < kLearnedMax ? std::chrono::duration_cast<Duration>(out) : kLearnedMax;
}

// Shorter than the floors is all the same.
bool has_grown(Duration to, Duration from) {
  return to > Duration::zero() &&
         (from == Duration::zero() || (to > kStepPartFloor / kStepFactor && to > kGrown * from));
}

}  // namespace

void HangWatch::Window::add(Duration time, std::size_t most) {
  last.push_back(time);
  if (last.size() > most) last.pop_front();
}

std::optional<Duration> HangWatch::Window::quantile(double share) const {
  if (last.empty()) return {};
  std::vector<Duration> sorted(last.begin(), last.end());
  const auto at = static_cast<std::size_t>(std::lround(share * static_cast<double>(sorted.size() - 1)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at), sorted.end());
  return sorted[at];
}

void HangWatch::begin_round(int workers, int world_size, const rendezvous::LearnedTimes& learned, TimePoint now) {
  if (learned_with_ == 0 && learned.world_size > 0) restore(learned);
  take_longer(learned);
  world_size_ = world_size;
  round_steps_ = 0;
  round_step_took_ = {};
  told_ = {};
  news_at_.reset();
  workers_.clear();
  for (int local_rank = 0; local_rank < workers; ++local_rank) {
    workers_[local_rank].since = now;
    workers_[local_rank].saved_at = now;
  }
  steps_before_round_ = steps_;
  last_look_.reset();
  next_look_ = now + kLookEvery;
}

// Steps are counted as long as nothing else comes between them.
void HangWatch::learn_step(Worker& worker, const WorkerSight& seen, TimePoint now) {
  const bool within = is_step_part(seen.activity) && is_step_part(worker.sight.activity);
  if (!within || !worker.counted_from || seen.steps_done < worker.counted_steps) {
    worker.counted_from = now;
    worker.counted_steps = seen.steps_done;
    return;
  }
  const std::uint64_t done = seen.steps_done - worker.counted_steps;
  if (done == 0) return;
  const Duration took = (now - *worker.counted_from) / static_cast<int>(std::min<std::uint64_t>(done, 1 << 20));
  step_took_.add(took, kStepsKept);
  round_step_took_.add(took, kStepsKept);
  worker.counted_from = now;
  worker.counted_steps = seen.steps_done;
}

// The age at the last look is what its activity took at least.
void HangWatch::learn(Worker& worker, const WorkerSight& seen, TimePoint now) {
  learn_step(worker, seen, now);
  steps_ = std::max(steps_, steps_before_round_ + seen.steps_done);
  round_steps_ = std::max(round_steps_, seen.steps_done);
  if (round_steps_ >= kWarmUpSteps) {
    learned_with_ = world_size_;
    restored_step_.reset();
  }
  if (seen.steps_done > 0 && seen.in_steps > Duration::zero())
    mean_step_ = seen.in_steps / static_cast<std::int64_t>(std::min<std::uint64_t>(seen.steps_done, INT32_MAX));
  const bool goes_on = seen.at == worker.sight.at;
  if (goes_on) return;
  const Activity was = worker.sight.activity;
  if (was == Activity::save) worker.saved_at = now;
  took_[was].add(worker.age, saves_or_evaluates(was) ? kSavesKept : kPartsKept);
}

void HangWatch::forgive(TimePoint now) {
  for (auto& [local_rank, worker] : workers_) {
    worker.since = now;
    worker.counted_from.reset();
    worker.overdue = false;
  }
}

void HangWatch::look(const std::map<int, WorkerSight>& workers, TimePoint now) {
  const Duration since_last_look = last_look_ ? now - *last_look_ : Duration::zero();
  const bool slept = last_look_ && now - std::max(*last_look_, next_look_) > kLateMax;
  last_look_ = now;
  next_look_ = now + kLookEvery;
  std::erase_if(workers_, [&](const auto& entry) { return !workers.contains(entry.first); });
  if (slept) forgive(now);
  for (const auto& [local_rank, seen] : workers) {
    Worker& worker = workers_[local_rank];
    learn(worker, seen, now);
    if (seen.at && *seen.at > worker.since) worker.since = *seen.at;
    worker.since += std::min(seen.starved, since_last_look * 3 / 4);
    if (seen.traced || worker.since > now) worker.since = now;
    worker.sight = seen;
    worker.age = now - worker.since;
    const auto limit = seen.at ? limit_of(seen.activity, seen.beats) : std::nullopt;
    worker.overdue = limit && worker.age >= *limit;
    if (limit && !worker.overdue) next_look_ = std::min(next_look_, worker.since + *limit);
  }
}

bool HangWatch::is_overdue(int local_rank) const {
  const auto worker = workers_.find(local_rank);
  return worker != workers_.end() && worker->second.overdue;
}

Activity HangWatch::activity(int local_rank) const {
  const auto worker = workers_.find(local_rank);
  return worker == workers_.end() ? Activity::start : worker->second.sight.activity;
}

std::optional<TimePoint> HangWatch::last_report(int local_rank) const {
  const auto worker = workers_.find(local_rank);
  return worker == workers_.end() ? std::nullopt : worker->second.sight.at;
}

bool HangWatch::any_overdue() const {
  return std::any_of(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second.overdue; });
}

std::vector<rendezvous::Standing> HangWatch::standings() const {
  std::vector<rendezvous::Standing> out;
  for (const auto& [local_rank, worker] : workers_)
    out.push_back({.rank = local_rank,
                   .activity = worker.sight.activity,
                   .collective = worker.sight.collective,
                   .step = worker.sight.step,
                   .age = worker.age,
                   .overdue = worker.overdue});
  return out;
}

std::optional<Duration> HangWatch::median_step() const {
  const auto median = step_took_.quantile(kHalf);
  return median ? median : mean_step_;
}

std::optional<Duration> HangWatch::recent_step() const {
  const auto median = round_step_took_.quantile(kHalf);
  return median || round_steps_ == 0 ? median : mean_step_;
}

std::optional<Duration> HangWatch::limit_of(Activity activity, bool beats) const {
  const HangLimit& limit = limits_.of(activity);
  return limit.time && !limit.off ? limit.time : learned_limit(activity, beats);
}

std::optional<Duration> HangWatch::patience(int local_rank, bool known_place) const {
  const auto found = workers_.find(local_rank);
  if (found == workers_.end()) return {};
  const Worker& worker = found->second;
  const HangLimit& limit = limits_.of(worker.sight.activity);
  if (limit.off || worker.sight.only_seen) return {};
  std::optional<Duration> time = limit_of(worker.sight.activity, worker.sight.beats);
  // A save or an evaluation may take long; that one takes longer than others is no reason to end it.
  const bool takes_long = worker.sight.inferred || saves_or_evaluates(worker.sight.activity);
  if (time && takes_long && !limit.time)
    time = std::max(*time, std::clamp<Duration>(lost_by_restart(worker), kPatience, kPatienceMax));
  return time && known_place ? scaled(kKnownPlaceFactor, *time) : time;
}

Duration HangWatch::lost_by_restart(const Worker& worker) const {
  const auto start = took_.find(Activity::start);
  const auto longest = start == took_.end() ? std::nullopt : start->second.quantile(kAll);
  const TimePoint worked_until = worker.sight.at.value_or(worker.saved_at);  // not `since`, which forgiven time moves
  return longest.value_or(Duration::zero()) + (worked_until - worker.saved_at);
}

Duration HangWatch::age(int local_rank) const {
  const auto worker = workers_.find(local_rank);
  return worker == workers_.end() ? Duration::zero() : worker->second.age;
}

// A program without beats may evaluate or save between two steps and not tell.
std::optional<Duration> HangWatch::learned_limit(Activity activity, bool beats) const {
  if (!beats || activity == Activity::end) return {};  // the last upload may take hours
  const auto took = took_.find(activity);
  if (saves_or_evaluates(activity) || (activity == Activity::start && steps_ > 0)) {
    const auto longest = took == took_.end() ? std::nullopt : took->second.quantile(kAll);
    const Duration floor = activity == Activity::start ? Duration(kUnknown) : Duration(kSaveFloor);
    return longest ? std::max<Duration>(floor, kSaveFactor * *longest) : kUnknown;
  }
  const auto step = median_step();
  if (!is_step_part(activity) || steps_ < kWarmUpSteps || !step || is_unlike_restored()) return kUnknown;
  const auto high = took == took_.end() ? std::nullopt : took->second.quantile(kHighShare);
  const Duration longest = std::max<Duration>(kStepFactor * *step, kPartFactor * high.value_or(Duration::zero()));
  return std::max<Duration>(kStepPartFloor, scaled(growth(), longest));
}

rendezvous::LearnedTimes HangWatch::learned() const {
  const auto of = [&](Activity activity, double share) {
    const auto took = took_.find(activity);
    return took == took_.end() ? Duration::zero() : took->second.quantile(share).value_or(Duration::zero());
  };
  return {.world_size = learned_with_,
          .steps = steps_,
          .step = median_step().value_or(Duration::zero()),
          .start = of(Activity::start, kAll),
          .load = of(Activity::load, kHighShare),
          .compute = of(Activity::compute, kHighShare),
          .wait = of(Activity::wait, kHighShare),
          .save = of(Activity::save, kAll),
          .evaluate = of(Activity::evaluate, kAll)};
}

std::optional<rendezvous::LearnedTimes> HangWatch::news(TimePoint now) {
  if (round_steps_ < kWarmUpSteps || (news_at_ && now - *news_at_ < kNewsEvery)) return {};
  news_at_ = now;
  const rendezvous::LearnedTimes known = learned();
  const bool grown = has_grown(known.step, told_.step) || has_grown(known.start, told_.start) ||
                     has_grown(known.load, told_.load) || has_grown(known.compute, told_.compute) ||
                     has_grown(known.wait, told_.wait) || has_grown(known.save, told_.save) ||
                     has_grown(known.evaluate, told_.evaluate);
  if (!grown) return {};
  told_ = known;
  return known;
}

void HangWatch::restore(const rendezvous::LearnedTimes& learned) {
  steps_ = steps_before_round_ = learned.steps;
  learned_with_ = learned.world_size;
  const auto add = [](Window& window, Duration time) {
    if (time > Duration::zero()) window.add(std::min<Duration>(time, kLearnedMax), kPartsKept);
  };
  restored_step_ = std::min<Duration>(learned.step, kLearnedMax);
  add(step_took_, learned.step);
  add(took_[Activity::load], learned.load);
  add(took_[Activity::compute], learned.compute);
  add(took_[Activity::wait], learned.wait);
}

// Rank 0 of a round may save for minutes and be another rank in the next one.
void HangWatch::take_longer(const rendezvous::LearnedTimes& learned) {
  const auto take = [&](Activity activity, Duration time) {
    Window& own = took_[activity];
    if (time > own.quantile(kAll).value_or(Duration::zero()))
      own.add(std::min<Duration>(time, kLearnedMax), kPartsKept);
  };
  take(Activity::start, learned.start);
  take(Activity::save, learned.save);
  take(Activity::evaluate, learned.evaluate);
}

double HangWatch::growth() const {
  if (round_steps_ >= kWarmUpSteps || world_size_ <= 0) return 1;
  return std::max(1.0, static_cast<double>(learned_with_) / world_size_);
}

// The user may have changed the model, the batch or the machine since.
bool HangWatch::is_unlike_restored() const {
  return restored_step_ && mean_step_ && *mean_step_ > kStepPartFloor / kStepFactor &&
         *mean_step_ > kStepFactor * *restored_step_;
}

}  // namespace ddprun::agent
