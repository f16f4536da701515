#include "agent/tell/job_events.h"

#include <charconv>
#include <cstdio>
#include <utility>

#include "agent/diagnosis/diagnosis.h"
#include "agent/diagnosis/error_file.h"
#include "agent/diagnosis/evidence.h"
#include "agent/diagnosis/failure_report.h"
#include "agent/hang/round_meter.h"
#include "agent/process/exit_status.h"

namespace ddprun::agent {
namespace {

// One that exits with the preemption's code by itself has not failed.
std::string end_state(const rendezvous::ExitStatus& status, bool stopping, std::optional<int> preempt_exit_code) {
  if (preempt_exit_code && status.code == *preempt_exit_code) return "TERMINATED";
  if (stopping && (status.ok() || was_stopped(status))) return "TERMINATED";  // some exit with 0 on SIGTERM
  return status.ok() ? "SUCCEEDED" : "FAILED";
}

std::string error_of(const WorkerRecord& worker, WorkerFiles* files) {
  const std::string content = files ? files->error_file(worker.error_file, Links::followed) : std::string();
  return content.empty() ? in_words(*worker.status) : error_in(content).text;
}

const char* state_of(rendezvous::PaceChange::Kind kind) {
  using Kind = rendezvous::PaceChange::Kind;
  switch (kind) {
    case Kind::straggler:
      return "STRAGGLER";
    case Kind::over:
      return "STRAGGLER_OVER";
    case Kind::all_slower:
      return "ALL_SLOWER";
    case Kind::all_normal:
      break;
  }
  return "ALL_NORMAL";
}

constexpr std::size_t kStacksMax = 16 << 10;  // bytes, of a worker

std::string ratio_text(int percent) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", percent / 100.0);
  return out;
}

std::string shortest(double value) {
  char out[32];
  const auto [end, error] = std::to_chars(out, out + sizeof out, value);
  return {out, end};
}

std::string in_milliseconds(Duration time) {
  return shortest(
      std::chrono::duration<double, std::milli>(std::chrono::floor<std::chrono::microseconds>(time)).count());
}

std::string seconds(WallTime when) {
  return std::to_string(std::chrono::duration<double>(when.time_since_epoch()).count());
}

}  // namespace

JobEvents::JobEvents(EventLog& log, const WorkerGroup& workers, EventJob job, std::optional<int> preempt_exit_code,
                     WorkerFiles* files)
    : log_(log), workers_(workers), job_(std::move(job)), preempt_exit_code_(preempt_exit_code), files_(files) {}

JobEvent JobEvents::event(const std::string& state) const {
  JobEvent out{.state = state, .when = std::chrono::system_clock::now(), .job = job_};
  out.run_time = Clock::now() - began_;
  if (!seat_) return out;
  out.group_rank = seat_->group_rank;
  out.group_world_size = seat_->group_world_size;
  out.round = seat_->round;
  out.restarts = seat_->restarts;
  return out;
}

JobEvent JobEvents::event_of(int local_rank, const std::string& state) const {
  JobEvent out = event(state);
  EventWorker worker{.rank = seat_->first_rank + local_rank, .local_rank = local_rank};
  worker.role_rank = seat_->first_role_rank + local_rank;
  worker.role_world_size = seat_->role_world_size;
  worker.pid = workers_.records().at(local_rank).pid;
  out.worker = worker;
  return out;
}

void JobEvents::write(JobEvent event) {
  if (std::exchange(first_, false)) {
    event.requeues = job_.requeues;
    if (!job_.command.empty()) event.more.emplace_back("command", job_.command);
  }
  log_.write(event);
}

void JobEvents::waiting_for_round() { waiting_since_ = Clock::now(); }

void JobEvents::round_formed(const rendezvous::Seat& seat) {
  seat_ = seat;
  stopping_ = false;
  failed_.clear();
  if (!log_.on()) return;
  JobEvent formed = event("RENDEZVOUS");
  formed.duration = Clock::now() - waiting_since_;
  write(formed);
  JobEvent ranks = event("ASSIGN_WORKER_RANKS");
  ranks.duration = std::chrono::nanoseconds(0);  // decided together with the round
  write(ranks);
}

void JobEvents::worker_started(int local_rank) {
  if (!log_.on()) return;
  JobEvent started = event_of(local_rank, "START");
  if (workers_.records().at(local_rank).stayed) started.more = {{"stayed", "true"}};
  write(started);
}

void JobEvents::worker_ended(int local_rank) {
  if (!log_.on()) return;
  const WorkerRecord& record = workers_.records().at(local_rank);
  if (!record.status) return;
  const auto failed = failed_.find(local_rank);
  const bool known = failed != failed_.end();
  JobEvent ended = event_of(local_rank, known ? "FAILED" : end_state(*record.status, stopping_, preempt_exit_code_));
  ended.when = record.ended_at_wall;
  ended.duration = record.ended_at - record.started_at;
  ended.worker->exit_code = torchrun_code(*record.status);
  if (record.late) ended.more = {{"late", "true"}};
  if (ended.state == "FAILED")
    ended.error = known && !failed->second.empty() ? failed->second : error_of(record, files_);
  write(ended);
}

void JobEvents::timer_expired(int local_rank, const ExpiredTimer& timer) {
  failed_.emplace(local_rank, in_words(timer));
  if (!log_.on()) return;
  JobEvent expired = event("RUNNING");
  expired.name = "timer expired";
  expired.more = {{"watchdog_event", "timer expired"},
                  {"worker_pid", std::to_string(timer.pid)},
                  {"scope_id", timer.scope},
                  {"expiration_time", seconds(timer.expires)},
                  {"signal", std::to_string(timer.signal)},
                  {"local_rank", std::to_string(local_rank)}};
  write(expired);
  expired.name = expired.more.front().second = "kill worker process";
  write(expired);
}

// torchrun has none of the events that follow here.
void JobEvents::stacks_taken(int local_rank, const std::string& stacks) {
  if (!log_.on() || !seat_) return;
  JobEvent taken = event("STACKS");
  taken.more = {{"rank", std::to_string(seat_->first_rank + local_rank)}, {"stacks", stacks.substr(0, kStacksMax)}};
  write(taken);
}

void JobEvents::reported(const std::string& report) {
  if (!log_.on() || report.empty()) return;
  JobEvent told = event("REPORT");
  told.more = {{"text", report}};
  write(told);
}

void JobEvents::pace_changed(const rendezvous::ReportPace& report) {
  if (!log_.on()) return;
  const rendezvous::PaceChange& change = report.change;
  JobEvent changed = event(state_of(change.kind));
  if (change.rank >= 0) changed.more.emplace_back("slow_rank", std::to_string(change.rank));
  if (!report.host.empty()) changed.more.emplace_back("slow_host", report.host);
  changed.more.emplace_back("phase", name_of(change.phase));
  changed.more.emplace_back("ratio", ratio_text(change.percent));
  if (change.before_percent > 0) changed.more.emplace_back("ratio_before", ratio_text(change.before_percent));
  changed.more.emplace_back("steps", std::to_string(change.steps));
  if (!report.then.empty()) changed.more.emplace_back("then", report.then);
  write(changed);
}

void JobEvents::act_carried_out(const rendezvous::ReportAct& report) {
  if (!log_.on()) return;
  JobEvent act = event("ACT");
  act.more = {{"act", in_words(report.act)},
              {"by", report.act.by},
              {"done", report.done ? "true" : "false"},
              {"text", report.text}};
  write(act);
}

void JobEvents::measured(const Metric& metric) {
  if (!log_.on()) return;
  JobEvent changed = event("METRIC");
  changed.more = {{"metric", metric.name},
                  {"value", shortest(metric.last)},
                  {"min", shortest(metric.least)},
                  {"max", shortest(metric.most)},
                  {"count", std::to_string(metric.count)}};
  write(changed);
}

void JobEvents::progressed(const JobProgress& progress) {
  if (!log_.on()) return;
  JobEvent out = event("PROGRESS");
  out.more = {{"step", std::to_string(progress.step)}};
  if (progress.steps_per_second) out.more.emplace_back("steps_per_second", shortest(*progress.steps_per_second));
  if (progress.loss) out.more.emplace_back("loss", shortest(*progress.loss));
  if (progress.total_steps) out.more.emplace_back("total_steps", std::to_string(*progress.total_steps));
  write(out);
}

void JobEvents::add_times(JobEvent& event, const rendezvous::RoundSpent& spent, rendezvous::RoundEnd how) {
  if (std::exchange(times_written_, seat_->round) == seat_->round) return;
  const rendezvous::TimeAccount times = account_of(spent, agent::measured(spent), how);
  for (const rendezvous::TimeKindName& one : rendezvous::kTimeKinds)
    if (times[one.kind] > Duration::zero())
      event.more.emplace_back(one.name + std::string("_ms"), in_milliseconds(times[one.kind]));
  if (const auto steps = kept_steps(spent)) {
    event.more.emplace_back("first_step", std::to_string(*spent.first_step));
    event.more.emplace_back("last_step", std::to_string(steps->last));
    event.more.emplace_back("steps", std::to_string(steps->steps));
    event.more.emplace_back("steps_ms", in_milliseconds(steps->time));
  }
  if (spent.snapshot_step) event.more.emplace_back("snapshot_step", std::to_string(*spent.snapshot_step));
}

void JobEvents::round_ended(const rendezvous::EndRound& end, const std::optional<rendezvous::RoundSpent>& spent) {
  if (!log_.on()) return;
  JobEvent ended = event("ROUND_ENDED");
  ended.more = {{"reason", end.reason}};
  if (end.cause) {
    ended.more.emplace_back("failure_class", name_of(end.cause->kind));
    ended.more.emplace_back("failed_rank", std::to_string(end.cause->rank));
    if (!end.cause->how.empty()) ended.more.emplace_back("failure", end.cause->how);
    ended.more.emplace_back("failure_text", failure_in_words(*end.cause, several_nodes()));
  }
  if (spent && seat_) add_times(ended, *spent, round_end(end.planned, end.cause));
  log_.write(ended);
}

void JobEvents::finished(const rendezvous::Outcome& outcome, const std::optional<rendezvous::RoundSpent>& spent) {
  if (!log_.on()) return;
  JobEvent end = event(outcome.verdict == rendezvous::Verdict::success ? "SUCCEEDED" : "FAILED");
  if (outcome.verdict == rendezvous::Verdict::interrupted) end.error = "interrupted by " + signal_name(outcome.signal);
  if (end.state == "FAILED" && !outcome.cause && end.error.empty()) end.error = outcome.reason;
  if (outcome.cause)
    end.more = {{"failure_class", name_of(outcome.cause->kind)},
                {"failed_rank", std::to_string(outcome.cause->rank)},
                {"failure_text", failure_in_words(*outcome.cause, several_nodes())}};
  const bool stopped = outcome.verdict == rendezvous::Verdict::interrupted ||
                       (outcome.verdict == rendezvous::Verdict::stopped && !outcome.cause);
  if (stopped) end.more.emplace_back("stopped", "true");
  if (outcome.cause)
    end.error = "rank " + std::to_string(outcome.cause->rank) + " " + in_words(*outcome.cause) + ": " + outcome.reason;
  if (spent && seat_) add_times(end, *spent, round_end(outcome));
  write(end);
}

}  // namespace ddprun::agent
