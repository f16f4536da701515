#include "agent/desk/job_page.h"

#include <algorithm>
#include <utility>

#include "agent/http/page/page.h"
#include "agent/status/page_data.h"
#include "agent/status/status_json.h"
#include "rendezvous/base/json_text.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kLookEvery{1}, kLookUnseenEvery{10}, kAliveEvery{10};

UnixTime unix_time() {
  return std::chrono::duration_cast<UnixTime>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

HttpResponse page_document() {
  return {.content_type = "text/html; charset=utf-8",
          .body = page_shell(),
          .header = "Content-Security-Policy: " + page_policy() + "\r\nReferrer-Policy: no-referrer"};
}

JobPage::JobPage(asio::io_context& io, HttpServer& server, AskStatus ask_status)
    : server_(server), ask_status_(std::move(ask_status)), timer_(io) {}

void JobPage::start() { look(); }

void JobPage::open(const HttpServer::Answer& answer) {
  openers_.push_back(answer);
  if (!asked_) look();
}

void JobPage::round_formed(int round) { history_.round_formed(round, unix_time()); }

void JobPage::round_ended(const rendezvous::EndRound& end) {
  const std::string cause = end.cause ? rendezvous::name_of(end.cause->kind) : end.reason;
  history_.round_ended(end.round, cause, unix_time());
}

void JobPage::job_ended(const rendezvous::Outcome& outcome) {
  timer_.cancel();
  const bool well = outcome.verdict == rendezvous::Verdict::success;
  const nlohmann::json end{{"text", well ? "The job has ended well." : "The job has ended: " + outcome.reason}};
  end_ = server_sent("ended", json_text(end));
  server_.append_to_streams(end_);
}

void JobPage::look() {
  asked_ = true;
  const bool seen = server_.streams() > 0 || !openers_.empty();
  ask_status_(/*lines=*/seen, [this](const nlohmann::json& status) { tell(status); });
}

void JobPage::tell(const nlohmann::json& answered) {
  asked_ = false;
  const TimePoint now = Clock::now();
  const UnixTime at = unix_time();
  history_.note(answered, at);
  const nlohmann::json status = page_status(answered);
  if (server_.streams() > 0 && end_.empty()) {
    std::string key = page_key(status);
    const int rounds_before = std::exchange(rounds_told_, history_.rounds_changed());
    const bool rounds = rounds_before != rounds_told_;
    if (rounds || key != key_) {
      server_.append_to_streams(change_event(status, history_, at, rounds));
      told_at_ = now;
    } else if (now >= told_at_ + kAliveEvery) {
      server_.append_to_streams(kAliveComment);
      told_at_ = now;
    }
    key_ = std::move(key);
  }
  for (const HttpServer::Answer& answer : std::exchange(openers_, {}))
    answer({.content_type = "text/event-stream", .body = whole_event(status, history_, at) + end_, .stream = true});
  timer_.expires_after(server_.streams() > 0 ? kLookEvery : kLookUnseenEvery);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) look();
  });
}

}  // namespace ddprun::agent
