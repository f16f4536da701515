// --page: the job's page for browsers, at / of the metrics' port. Its history is kept for as long as the job runs; the
// coordinator is asked for the job's status once a second while a page is open, and every ten seconds otherwise.
#include <algorithm>
#include <utility>

#include "agent/agent.h"
#include "agent/http/page/page.h"
#include "agent/status/page_data.h"
#include "agent/status/status_json.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kLookEvery{1}, kLookUnseenEvery{10}, kAliveEvery{10};

UnixTime unix_time() {
  return std::chrono::duration_cast<UnixTime>(std::chrono::system_clock::now().time_since_epoch());
}

}  // namespace

void Agent::serve_page(const HttpServer::Answer& answer) {
  answer({.content_type = "text/html; charset=utf-8",
          .body = page_shell(),
          .header = "Content-Security-Policy: " + page_policy() + "\r\nReferrer-Policy: no-referrer"});
}

void Agent::start_history() {
  if (!options_.metrics || !options_.metrics->page) return;
  page_.emplace(io_);
  look_for_page();
}

// A page that is opened gets the whole history with the next look, which is now.
void Agent::open_live(const HttpServer::Answer& answer) {
  page_->openers.push_back(answer);
  if (!page_->asked) look_for_page();
}

void Agent::tell_page_of_round(int round) {
  if (page_) page_->history.round_formed(round, unix_time());
}

void Agent::tell_page_of_end(const rendezvous::EndRound& end) {
  const std::string cause = end.cause ? rendezvous::name_of(end.cause->kind) : end.reason;
  if (page_) page_->history.round_ended(end.round, cause, unix_time());
}

void Agent::tell_pages_of_job_end(const rendezvous::Outcome& outcome) {
  if (!page_) return;
  page_->timer.cancel();
  const bool well = outcome.verdict == rendezvous::Verdict::success;
  const nlohmann::json end{{"text", well ? "The job has ended well." : "The job has ended: " + outcome.reason}};
  http_->append_to_streams(server_sent("ended", end.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

void Agent::look_for_page() {
  page_->asked = true;
  ask_for_status_json([this](const nlohmann::json& status) { tell_pages(status); });
}

void Agent::tell_pages(const nlohmann::json& answered) {
  page_->asked = false;
  const TimePoint now = Clock::now();
  const UnixTime at = unix_time();
  page_->history.note(answered, at);
  const nlohmann::json status = page_status(answered);
  if (http_->streams() > 0) {
    std::string key = page_key(status);
    const int rounds_before = std::exchange(page_->rounds_told, page_->history.rounds_changed());
    const bool rounds = rounds_before != page_->rounds_told;
    if (rounds || key != page_->key) {
      http_->append_to_streams(change_event(status, page_->history, at, rounds));
      page_->told_at = now;
    } else if (now >= page_->told_at + kAliveEvery) {
      http_->append_to_streams(kAliveComment);
      page_->told_at = now;
    }
    page_->key = std::move(key);
  }
  for (const HttpServer::Answer& answer : std::exchange(page_->openers, {}))
    answer({.content_type = "text/event-stream", .body = whole_event(status, page_->history, at), .stream = true});
  page_->timer.expires_after(http_->streams() > 0 ? kLookEvery : kLookUnseenEvery);
  page_->timer.async_wait([this](const asio::error_code& error) {
    if (!error) look_for_page();
  });
}

}  // namespace ddprun::agent
