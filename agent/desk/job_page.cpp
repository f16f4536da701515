#include "agent/desk/job_page.h"

#include <algorithm>
#include <utility>

#include "agent/diagnosis/failure_report.h"
#include "agent/http/page/page.h"
#include "agent/status/page_data.h"
#include "agent/status/status_json.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kLookEvery{1}, kLookUnseenEvery{10}, kAliveEvery{10};
constexpr std::chrono::seconds kTimesEvery{5};  // of rounds, where nothing else of them changes

}  // namespace

HttpResponse page_document() {
  return {.content_type = "text/html; charset=utf-8",
          .body = page_shell(),
          .header = "Content-Security-Policy: " + page_policy() + "\r\nReferrer-Policy: no-referrer"};
}

JobPage::JobPage(asio::io_context& io, HttpServer& server, HistoryKeeper& history, AskStatus ask_status)
    : server_(server), history_(history), ask_status_(std::move(ask_status)), timer_(io) {}

void JobPage::start() { look(); }

void JobPage::open(const HttpServer::Answer& answer) {
  openers_.push_back(answer);
  if (!asked_) look();
}

// The time until now belongs to the rounds before.
void JobPage::round_formed() {
  if (!asked_ && end_.empty()) look();
}

void JobPage::job_ended(const rendezvous::Outcome& outcome) {
  timer_.cancel();
  const bool well = outcome.verdict == rendezvous::Verdict::success;
  const std::string cause = outcome.cause ? failure_in_words(*outcome.cause, history_.several_nodes()) : "";
  end_ = ended_event(well ? "The job has ended well." : "The job has ended: " + outcome.reason,
                     condition_of(outcome, history_.run_time(), cause));
  server_.append_to_streams(end_);
}

void JobPage::look() {
  asked_ = true;
  ask_status_(/*lines=*/is_open(), [this](const nlohmann::json& status) { tell(status); });
}

void JobPage::tell(const nlohmann::json& answered) {
  asked_ = false;
  const TimePoint now = Clock::now();
  const UnixTime at = unix_time();
  history_.note(answered);
  const nlohmann::json status = page_status(answered);
  if (server_.streams() > 0 && end_.empty()) {
    std::string key = page_key(status);
    const int changes_before = std::exchange(changes_told_, history_.history().changes());
    const bool changed = changes_before != changes_told_ || key != key_;
    const bool rounds = changes_before != changes_told_ || now >= rounds_told_at_ + kTimesEvery;
    if (changed) {
      server_.append_to_streams(change_event(status, history_.history(), at, rounds));
      told_at_ = now;
      if (rounds) rounds_told_at_ = now;
    } else if (now >= told_at_ + kAliveEvery) {
      server_.append_to_streams(kAliveComment);
      told_at_ = now;
    }
    key_ = std::move(key);
  }
  for (const HttpServer::Answer& answer : std::exchange(openers_, {}))
    answer({.content_type = "text/event-stream",
            .body = whole_event(status, history_.history(), at) + end_,
            .stream = true});
  timer_.expires_after(server_.streams() > 0 ? kLookEvery : kLookUnseenEvery);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) look();
  });
}

}  // namespace ddprun::agent
