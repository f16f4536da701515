#include "agent/channel/worker_channels.h"

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

namespace ddprun::agent {
namespace {

constexpr std::uint64_t kStepsAhead = 2;  // one rank may be in the next step already, and must still see the request

bool uses_it(const Progress& progress) { return progress.at.has_value(); }

}  // namespace

WorkerChannels::WorkerChannels(asio::io_context& io, std::function<void(int)> on_hint)
    : on_news_(std::make_shared<std::function<void(DeathWatch::Token)>>(
          [this, on_hint = std::move(on_hint)](DeathWatch::Token token) {
            for (const auto& [local_rank, channel] : channels_)
              if (channel.token == token) return on_hint(local_rank);
          })),
      watch_([&io, weak = std::weak_ptr(on_news_)](DeathWatch::Token token) {
        asio::post(io, [weak, token] {
          if (const auto on_news = weak.lock()) (*on_news)(token);
        });
      }) {}

void WorkerChannels::begin() {
  for (const auto& [local_rank, channel] : channels_) watch_.forget(channel.token);
  channels_.clear();
  asked_to_save_.reset();
}

int WorkerChannels::open(int local_rank, TimePoint now) {
  const auto [channel, fresh] = channels_.insert_or_assign(local_rank, Channel{ChannelPage::create(now), 0});
  return channel->second.page.fd();
}

void WorkerChannels::started(int local_rank) {
  Channel& channel = channels_.at(local_rank);
  channel.page.close_fd();
  channel.token = ++last_token_;
  watch_.watch(channel.token, channel.page);
}

void WorkerChannels::ended(int local_rank) { watch_.forget(channels_.at(local_rank).token); }

std::optional<bool> WorkerChannels::progressed(TimePoint now) {
  bool told = false, further = false;
  for (auto& [local_rank, channel] : channels_) {
    const Progress progress = channel.page.progress(now);
    told |= uses_it(progress);
    further |= progress.steps_done > 0 || progress.snapshot_at;
  }
  return told ? std::optional(further) : std::nullopt;
}

void WorkerChannels::ask_to_save(TimePoint now) {
  asked_to_save_ = now;
  std::optional<std::uint64_t> last;
  for (auto& [local_rank, channel] : channels_) last = std::max(last, channel.page.progress(now).step);
  if (!last) return;
  step_when_asked_ = *last;
  for (auto& [local_rank, channel] : channels_) channel.page.request_save_at(*last + kStepsAhead);
}

void WorkerChannels::ask_to_leave() {
  for (auto& [local_rank, channel] : channels_) channel.page.request_leave_without_saving();
}

bool WorkerChannels::all_saved(TimePoint now) {
  return !channels_.empty() && std::all_of(channels_.begin(), channels_.end(), [&](auto& entry) {
    const Progress progress = entry.second.page.progress(now);
    if (!progress.snapshot_at) return false;
    // A snapshot that was being written at the request may be reported later, but holds an older step.
    const bool as_asked =
        asked_to_save_ && *progress.snapshot_at >= *asked_to_save_ && progress.snapshot_step >= step_when_asked_;
    return as_asked || progress.snapshot_step >= progress.step;
  });
}

bool WorkerChannels::all_finishing(TimePoint now) {
  return !channels_.empty() && std::all_of(channels_.begin(), channels_.end(), [&](auto& entry) {
    return entry.second.page.progress(now).phase == DDPRUN_PHASE_FINISHING;
  });
}

}  // namespace ddprun::agent
