#include "agent/tell/tell.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace ddprun::agent {

Tell::Tell(asio::io_context& io, LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, Options options,
           std::function<Coordination&()> coordination)
    : pipes_(pipes),
      layout_(layout),
      workers_(workers),
      state_files_(options.state),
      alone_(options.alone),
      tells_page_(options.tells_page),
      log_(options.log_level, [&pipes](const std::string& line) { pipes.print(line); }),
      files_([this](const std::string& sentence) {
        files_were_told_ = true;
        say(sentence);
      }),
      worker_files_(layout.keeps_logs(), [this](const std::string& sentence) { say(sentence); }),
      event_log_(
          options.event_log, [&pipes](const std::string& line) { pipes.print(line); }, files_),
      reporter_(pipes, layout, workers, files_, worker_files_, std::move(options.reporter)),
      events_(event_log_, workers, std::move(options.job), options.preempt_exit_code, &worker_files_),
      failures_(pipes, reporter_, std::move(options.rules)),
      ending_(io, reporter_, std::move(coordination), options.alone) {
  pipes.read_files_by([this](const auto& file, std::uintmax_t begin) { return worker_files_.newest(file, begin); });
}

void Tell::http_is_at(bool page, bool https, const std::string& address, std::uint16_t port) {
  if (page && (tells_page_ || shows_places()))
    reporter().page_is_at(https, address, port, /*sits_elsewhere=*/!alone_);
  else if (shows_places())
    reporter().metrics_are_at(https, address, port);
}

bool Tell::shows_places() const { return log_.at(LogLevel::info) || isatty(STDERR_FILENO); }

void Tell::pace_changed(const rendezvous::ReportPace& report) {
  reporter_.pace_changed(report);
  events_.pace_changed(report);
}

void Tell::act_carried_out(const rendezvous::ReportAct& report) {
  reporter_.act_carried_out(report);
  events_.act_carried_out(report);
}

void Tell::timer_expired(int local_rank, const ExpiredTimer& timer) {
  reporter_.timer_expired(local_rank, timer);
  events_.timer_expired(local_rank, timer);
}

void Tell::round_ended(const rendezvous::EndRound& end, const std::optional<rendezvous::RoundSpent>& spent) {
  events_.round_ended(end, spent);
  const auto& failure = failures_.last();
  if (failure && failure->round == end.round)
    reporter_.restarting(*failure, end.reason, failures_.round_of_last());
  else
    reporter_.regrouping(end);
}

void Tell::keep_stacks(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks) {
  for (std::size_t i = 0; i < local_ranks.size() && i < stacks.size(); ++i)
    events_.stacks_taken(local_ranks[i], to_text(stacks[i]));
  if (!layout_.keeps_logs()) return;
  for (std::size_t i = 0; i < local_ranks.size() && i < stacks.size(); ++i) {
    const auto file = workers_.records().at(local_ranks[i]).folder / "stacks.txt";
    const std::string text = to_text(stacks[i]);
    files_.post(file.string(), text.size(), [file, text]() -> std::string {
      return std::ofstream(file, std::ios::app) << text << std::flush ? "" : "cannot write " + file.string();
    });
  }
}

std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> Tell::ledger_hook() {
  if (state_files_.ledger.empty() && state_files_.excluded.empty()) return {};
  state_.emplace(state_files_, files_);
  return [this](const auto& record, const auto* outcome) { state_->save(record, outcome); };
}

}  // namespace ddprun::agent
