#include "agent/job_ending.h"

#include <utility>

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kWordsLimit{3'000};  // for a failure's report to come from the coordinator, our own included

}  // namespace

JobEnding::JobEnding(asio::io_context& io, Reporter& reporter, std::function<Coordination&()> coordination, bool alone)
    : reporter_(reporter), coordination_(std::move(coordination)), alone_(alone), words_due_(io) {}

bool JobEnding::is_ours(const rendezvous::Outcome& outcome) const {
  return outcome.cause->node == coordination_().node();
}

void JobEnding::begins(const rendezvous::Outcome& outcome) {
  if (alone_ || !outcome.cause || !is_ours(outcome)) return;
  words_due_.expires_after(kLastWords);
  words_due_.async_wait([this, outcome](const asio::error_code& error) {
    if (!error) send_words(outcome);
  });
}

void JobEnding::words_came(const std::string& words) {
  words_ = words;
  words_due_.cancel();
}

void JobEnding::send_words(const rendezvous::Outcome& outcome) {
  if (!std::exchange(words_sent_, true)) coordination_().send(rendezvous::FailureWords{reporter_.words_of(outcome)});
}

void JobEnding::tell(const rendezvous::Outcome& outcome, bool asked_to, std::function<void(const std::string&)> done) {
  if (!outcome.cause) {
    const bool worth_words = outcome.verdict != rendezvous::Verdict::success || outcome.late;
    if (!alone_ && worth_words && !asked_to) reporter_.ended(outcome);
    return done("");
  }
  const bool ours = is_ours(outcome);
  std::string report = ours ? reporter_.failed(outcome) : "";
  if (alone_) return done(report);
  if (ours) send_words(outcome);
  words_due_.expires_after(words_ ? milliseconds(0) : kWordsLimit);
  words_due_.async_wait([this, outcome, ours, report, done = std::move(done)](const asio::error_code&) {
    done(ours ? report : reporter_.failed_elsewhere(outcome, words_));
  });
}

}  // namespace ddprun::agent
