#include "agent/logs/round_output.h"

#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kCheckEvery{200};  // for events: five lines a second for each metric at most

}  // namespace

void RoundOutput::begin_round(int round, bool with_rank_0) {
  finding_.reset();
  if (monitor_) monitor_->begin_round(round, with_rank_0);
}

void RoundOutput::worker_ended(int round, int local_rank) {
  if (monitor_) monitor_->worker_ended(round, local_rank);
}

void RoundOutput::tell() {
  if (!monitor_) return;
  for (const Metric& metric : monitor_->take_metrics()) hooks_.on_metric(metric);
  for (const LineSearch::Wanted& dropped : monitor_->take_dropped()) hooks_.on_dropped(dropped);
}

void RoundOutput::watch() {
  if (!monitor_ || !hooks_.round_runs()) return;
  tell();
  if (auto found = monitor_->finding(); found && !finding_) {
    finding_ = std::move(found);
    return hooks_.on_rule(*finding_);
  }
  timer_.expires_after(kCheckEvery);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) watch();
  });
}

}  // namespace ddprun::agent
