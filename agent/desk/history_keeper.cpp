#include "agent/desk/history_keeper.h"

#include <nlohmann/json.hpp>

#include "agent/diagnosis/failure_report.h"
#include "agent/status/job_condition.h"
#include "agent/status/status_json.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kSampleEvery{2};

// A rank's failure, or the coordinator's words.
RoundEnding ending_of(const rendezvous::EndRound& end, bool several_nodes) {
  RoundEnding out{.cause = end.reason, .failed = !end.planned, .story = end.reason};
  if (!end.cause) return out;
  out.cause = rendezvous::name_of(end.cause->kind);
  out.story = failure_in_words(*end.cause, several_nodes);
  out.rank = end.cause->rank;
  out.node = end.cause->host;
  return out;
}

}  // namespace

UnixTime unix_time() {
  static const auto first = std::pair(std::chrono::system_clock::now().time_since_epoch(), Clock::now());
  return std::chrono::duration_cast<UnixTime>(first.first + (Clock::now() - first.second));
}

void HistoryKeeper::round_formed(const rendezvous::Seat& seat) {
  several_nodes_ = seat.group_world_size > 1;
  world_size_ = seat.world_size;
  history_.round_formed(seat.round, seat.world_size, unix_time());
}

void HistoryKeeper::workers_run() {
  if (std::exchange(watches_, true)) return;
  timer_.expires_after(kSampleEvery);
  watch();
}

void HistoryKeeper::round_ended(const rendezvous::EndRound& end) {
  history_.round_ended(end.round, ending_of(end, several_nodes_), unix_time());
}

void HistoryKeeper::straggler_found(const std::string& text) { history_.straggler_found(text, unix_time()); }

void HistoryKeeper::note(const nlohmann::json& status) { history_.note(status, unix_time()); }

void HistoryKeeper::job_ended() {
  ended_ = true;
  timer_.cancel();
}

std::optional<LastFailure> HistoryKeeper::last_failure() const {
  const HistoryRounds* const round = history_.last_failed();
  if (!round || round->story.empty() || !round->end) return {};
  return LastFailure{.round = round->last,
                     .rank = round->rank,
                     .node = round->node,
                     .text = round->story,
                     .age = unix_time() - *round->end};
}

void HistoryKeeper::watch() {
  timer_.async_wait([this](const asio::error_code& error) {
    if (error || ended_) return;
    if (!hooks_.is_looked_at()) {
      StatusAnswer own;
      own.job = rendezvous::JobView{.phase = rendezvous::JobPhase::running, .world_size = world_size_};
      own.nodes = {hooks_.own_report()};
      nlohmann::json status = to_json(own);
      status.erase("time");  // it is the coordinator who keeps that
      history_.note_own(status, unix_time());
    }
    timer_.expires_after(kSampleEvery);
    watch();
  });
}

}  // namespace ddprun::agent
