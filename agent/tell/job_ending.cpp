#include "agent/tell/job_ending.h"

#include <utility>

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kReportLimit{3'000};  // for a failure's report to come from the coordinator, our own included

}  // namespace

JobEnding::JobEnding(asio::io_context& io, Reporter& reporter, std::function<Coordination&()> coordination, bool alone)
    : reporter_(reporter), coordination_(std::move(coordination)), alone_(alone), report_timer_(io) {}

bool JobEnding::is_ours(const rendezvous::Outcome& outcome) const {
  return outcome.cause->node == coordination_().node();
}

void JobEnding::on_job_end(const rendezvous::Outcome& outcome) {
  if (alone_ || !outcome.cause || !is_ours(outcome)) return;
  report_timer_.expires_after(kLastOutputWait);
  report_timer_.async_wait([this, outcome](const asio::error_code& error) {
    if (!error) send_report(outcome);
  });
}

void JobEnding::on_report(const std::string& report) {
  report_ = report;
  report_timer_.cancel();
}

void JobEnding::send_report(const rendezvous::Outcome& outcome) {
  if (!std::exchange(report_sent_, true)) coordination_().send(rendezvous::FailureText{reporter_.report_text(outcome)});
}

void JobEnding::print_report(const rendezvous::Outcome& outcome, bool by_signal,
                             std::function<void(const std::string&)> done) {
  if (!outcome.cause) {
    const bool worth_reporting = outcome.verdict != rendezvous::Verdict::success || outcome.late;
    if (!alone_ && worth_reporting && !by_signal) reporter_.ended(outcome);
    return done("");
  }
  const bool ours = is_ours(outcome);
  std::string report = ours ? reporter_.failed(outcome) : "";
  if (alone_) return done(report);
  if (ours) send_report(outcome);
  report_timer_.expires_after(report_ ? milliseconds(0) : kReportLimit);
  report_timer_.async_wait([this, outcome, ours, report, done = std::move(done)](const asio::error_code&) {
    done(ours ? report : reporter_.failed_elsewhere(outcome, report_));
  });
}

}  // namespace ddprun::agent
