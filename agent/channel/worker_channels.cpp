#include "agent/channel/worker_channels.h"

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

namespace ddprun::agent {
namespace {

// The watch has threads, which a short job does not need. Who dies sooner is found when it begins.
constexpr std::chrono::milliseconds kWatchBegins{100};
constexpr std::uint64_t kStepsAhead = 2;  // one rank may be in the next step already, and must still see the request

bool uses_channel(const Progress& progress) { return progress.at && !progress.only_seen; }

// Under --watch not steps_done, which leaves out the first one, as its time is not known. A plain loop's steps are
// counted from the start.
std::uint64_t steps_of_round(const Progress& progress) {
  if (!progress.unasked || !progress.step) return progress.steps_done;
  const std::uint64_t first = std::max<std::uint64_t>(progress.first_step.value_or(1), 1);
  return *progress.step - std::min(*progress.step, first - 1);
}

}  // namespace

WorkerChannels::WorkerChannels(asio::io_context& io, std::function<void(int)> on_hint)
    : on_token_(std::make_shared<std::function<void(DeathWatch::Token)>>(
          [this, on_hint = std::move(on_hint)](DeathWatch::Token token) {
            for (const auto& [local_rank, channel] : channels_)
              if (channel.token == token) return on_hint(local_rank);
          })),
      watch_([&io, weak = std::weak_ptr(on_token_)](DeathWatch::Token token) {
        asio::post(io, [weak, token] {
          if (const auto on_token = weak.lock()) (*on_token)(token);
        });
      }),
      watch_begins_(io) {}

void WorkerChannels::begin(const std::set<int>& kept) {
  for (const auto& [local_rank, channel] : channels_)
    if (!kept.contains(local_rank)) watch_.forget(channel.token);
  std::erase_if(channels_, [&](const auto& entry) { return !kept.contains(entry.first); });
  watch_begins_.cancel();
  save_requested_at_.reset();
}

int WorkerChannels::open(int local_rank, TimePoint now) {
  const auto [channel, fresh] = channels_.insert_or_assign(local_rank, Channel{ChannelPage::create(now), 0});
  return channel->second.page.fd();
}

void WorkerChannels::started(int local_rank) {
  Channel& channel = channels_.at(local_rank);
  channel.page.close_fd();
  channel.token = ++last_token_;
}

void WorkerChannels::all_started() {
  watch_begins_.expires_after(kWatchBegins);
  watch_begins_.async_wait([this, weak = std::weak_ptr(on_token_)](const asio::error_code& canceled) {
    if (!canceled && !weak.expired()) watch_fresh();
  });
}

void WorkerChannels::watch_fresh() {
  std::vector<std::pair<DeathWatch::Token, const ChannelPage*>> fresh;
  for (auto& [local_rank, channel] : channels_)
    if (channel.token != 0 && !std::exchange(channel.settled, true)) fresh.push_back({channel.token, &channel.page});
  watch_.watch(fresh);
}

bool WorkerChannels::may_park(int local_rank) const {
  const auto channel = channels_.find(local_rank);
  return channel != channels_.end() && channel->second.page.may_park();
}

bool WorkerChannels::is_parked(int local_rank) const {
  const auto channel = channels_.find(local_rank);
  return channel != channels_.end() && channel->second.page.is_parked();
}

// Its later hints are not to count as an earlier round's.
bool WorkerChannels::seat(int local_rank, const std::vector<std::string>& environment, TimePoint now) {
  Channel& channel = channels_.at(local_rank);
  watch_.forget(channel.token);
  channel.token = ++last_token_;
  channel.settled = true;
  watch_.watch(channel.token, channel.page);
  return channel.page.seat(environment, now);
}

void WorkerChannels::ended(int local_rank) {
  Channel& channel = channels_.at(local_rank);
  if (std::exchange(channel.settled, true)) watch_.forget(channel.token);
}

pid_t WorkerChannels::owner(int local_rank) const {
  const auto channel = channels_.find(local_rank);
  return channel == channels_.end() ? 0 : channel->second.page.owner();
}

std::optional<bool> WorkerChannels::progressed(TimePoint now) {
  bool reported = false, advanced = false;
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    if (!uses_channel(progress)) continue;
    reported = true;
    advanced |= progress.steps_done > 0 || progress.snapshot_at;
  }
  return reported ? std::optional(advanced) : std::nullopt;
}

std::optional<std::uint64_t> WorkerChannels::last_step(TimePoint now) {
  std::optional<std::uint64_t> last;
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    const bool begun = progress.steps_done > 0 || progress.phase > DDPRUN_PHASE_JOINING;
    if (begun) last = std::max(last.value_or(0), progress.step.value_or(0));
  }
  return last;
}

void WorkerChannels::request_save(TimePoint now) {
  const auto last = last_step(now);
  if (!last) return request_leave();
  save_requested_at_ = now;
  step_at_request_ = *last;
  for (auto& [local_rank, channel] : channels_) channel.page.request_save_at(*last + kStepsAhead);
}

void WorkerChannels::request_snapshot(TimePoint now) {
  const std::uint64_t last = last_step(now).value_or(0);
  for (auto& [local_rank, channel] : channels_) channel.page.request_snapshot_at(last + kStepsAhead);
}

void WorkerChannels::request_leave() {
  for (auto& [local_rank, channel] : channels_) channel.page.request_leave_without_saving();
}

std::uint64_t WorkerChannels::unsaved_steps(const Progress& progress) const {
  const std::uint64_t done = steps_of_round(progress);
  if (!progress.step || done == 0) return 0;
  if (!progress.snapshot_at) return done;
  // A snapshot that was being written at the request may be reported later, but holds an older step.
  const bool as_requested =
      save_requested_at_ && *progress.snapshot_at >= *save_requested_at_ && progress.snapshot_step >= step_at_request_;
  if (as_requested || *progress.snapshot_step >= *progress.step) return 0;
  return std::min(done, *progress.step - *progress.snapshot_step);
}

WorkerChannels::Unsaved WorkerChannels::unsaved(TimePoint now, const std::set<int>& saved,
                                                const std::function<bool()>& program_uses_channel) {
  Unsaved result{.save_requested = save_requested_at_.has_value()};
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    const bool unknown = progress.only_seen || (!uses_channel(progress) && !channel.page.attached());
    if (unknown && !saved.contains(local_rank)) result.unknown.push_back(local_rank);
    if (progress.only_seen) continue;
    const std::uint64_t steps = unsaved_steps(progress);
    if (steps > 0) result.first_step = *progress.step - std::min(steps_of_round(progress), *progress.step);
    result.saving |= steps > 0 && result.save_requested && progress.phase == DDPRUN_PHASE_SAVING;
    result.steps = std::max(result.steps, steps);
    result.snapshot_step = std::max(result.snapshot_step, progress.snapshot_step);
  }
  result.known = result.unknown.empty() || program_uses_channel();
  return result;
}

Progress WorkerChannels::progress(int local_rank, TimePoint now) {
  const auto channel = channels_.find(local_rank);
  return channel == channels_.end() ? Progress{} : channel->second.page.progress(now);
}

std::optional<int> WorkerChannels::new_notice(int local_rank, TimePoint now) {
  const auto channel = channels_.find(local_rank);
  return channel == channels_.end() ? std::nullopt : channel->second.page.new_notice(now);
}

std::optional<WorkerChannels::Unasked> WorkerChannels::unasked(TimePoint now) {
  std::optional<Unasked> result;
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    if (progress.snapshot_step) return {};
    if (!progress.unasked || !progress.step) continue;
    if (!result) result.emplace();
    result->step = std::max(result->step, *progress.step);
    result->steps_done = std::max(result->steps_done, steps_of_round(progress));
    result->file_step = std::max(result->file_step, progress.file_step);
  }
  return result;
}

// With inferred phases, or saves that are not told as snapshots, nobody knows.
bool WorkerChannels::nothing_saved(TimePoint now) {
  bool any = false;
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    const bool saves = progress.times && progress.times->spent[DDPRUN_PHASE_SAVING].count() > 0;
    if (progress.inferred || progress.snapshot_step || saves || progress.phase == DDPRUN_PHASE_SAVING) return false;
    if (progress.step && *progress.step > progress.steps_done) return false;  // it went on from a snapshot
    any |= progress.step.has_value();
  }
  return any;
}

bool WorkerChannels::all_finishing(TimePoint now) {
  return !channels_.empty() && std::all_of(channels_.begin(), channels_.end(), [&](auto& entry) {
    return entry.second.page.progress(now).phase == DDPRUN_PHASE_FINISHING;
  });
}

}  // namespace ddprun::agent
