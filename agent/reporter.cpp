#include "agent/reporter.h"

#include <csignal>
#include <utility>

#include <unistd.h>

#include "agent/exit_status.h"
#include "agent/failure_report.h"
#include "agent/file_content.h"

namespace ddprun {
namespace {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

// Whole seconds, rounded up: nobody is promised less than there is.
std::string seconds(Duration time) { return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()); }

bool stopped_by_us(const ExitStatus& status) { return status.signal == SIGTERM || status.signal == SIGKILL; }

}  // namespace

Reporter::Reporter(LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, std::string program)
    : pipes_(pipes), layout_(layout), workers_(workers), program_(std::move(program)) {}

void Reporter::logs_are_in(const std::filesystem::path& folder) {
  if (!folder.empty()) pipes_.print("ddprun: the workers' logs are in " + folder.string() + "\n");
}

void Reporter::ended_leftovers(int processes, const std::string& run_id) {
  pipes_.print("ddprun: ended " + std::to_string(processes) + " processes that an earlier run of job " + run_id +
               " had left behind.\n");
}

void Reporter::preempted(int signal) {
  pipes_.print("ddprun: " + signal_name(signal) + ": the scheduler's early notice (--preempt-signal).\n");
}

void Reporter::run_is_over(Duration allowed) {
  pipes_.print("ddprun: the job has run for " + seconds(allowed) + " s, as long as --max-run allows.\n");
}

void Reporter::stopping(int signal, Duration grace) {
  pipes_.print("ddprun: " + signal_name(signal) + ": stopping the workers; SIGKILL in " + seconds(grace) +
               " s, or at the next Ctrl-C.\n");
}

void Reporter::waiting(const std::vector<int>& local_ranks, Duration left) {
  constexpr std::size_t kNamedMax = 8;  // a line, not a list of a thousand ranks
  std::string named;
  for (std::size_t i = 0; i < local_ranks.size() && i < kNamedMax; ++i)
    named += (i ? ", " : "") + std::to_string(workers_.rank_of(local_ranks[i]));
  if (local_ranks.size() > kNamedMax) named += " and " + std::to_string(local_ranks.size() - kNamedMax) + " more";
  pipes_.print(std::string("ddprun: waiting for rank") + (local_ranks.size() > 1 ? "s " : " ") + named +
               " to leave; SIGKILL in " + seconds(left) + " s.\n");
}

void Reporter::restarting(const Failure& failure, const std::string& reason) {
  const WorkerRecord& record = workers_.records().at(failure.local_rank);
  pipes_.print("ddprun: " + headline(failure, record.ended_at - record.started_at) + "; " + reason + ".\n");
}

void Reporter::still_there(const std::vector<pid_t>& processes, int round) {
  for (const pid_t pid : processes)
    pipes_.print("ddprun: process " + std::to_string(pid) + " of round " + std::to_string(round) +
                 " is still there after SIGKILL: the kernel holds it, or it belongs to another user.\n");
}

void Reporter::failed(const Outcome& outcome) {
  const Failure& failure = *outcome.cause;
  const WorkerRecord& record = workers_.records().at(failure.local_rank);
  FailureReport report{failure, outcome.reason, host_name(), program_, record.pid};
  report.when = record.ended_at_wall;
  report.into_round = record.ended_at - record.started_at;
  report.last_lines = pipes_.last_lines(failure.round, failure.rank);
  if (const std::string content = file_content(record.folder / "error.json"); !content.empty())
    report.error_message = error_message_of(content);
  if (layout_.keeps_logs()) report.log = (record.stderr_log.empty() ? record.folder : record.stderr_log).string();
  for (const auto& [local_rank, other] : workers_.records())
    if (local_rank != failure.local_rank && other.status && !other.status->ok() && !stopped_by_us(*other.status))
      report.others.push_back("rank " + std::to_string(failure.rank - failure.local_rank + local_rank) + " " +
                              in_words(*other.status));
  pipes_.print(to_text(report));
}

}  // namespace ddprun
