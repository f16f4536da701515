// Writes a job's life, as this node's agent sees it, to the event log.
//
// The agent calls each function when the event happens. No event is built if the event log is off.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "agent/channel/file_timer.h"
#include "agent/hang/job_progress.h"
#include "agent/logs/event_log.h"
#include "agent/logs/output_metrics.h"
#include "agent/round/worker_group.h"
#include "agent/tell/worker_files.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class JobEvents {
 public:
  // `log` and `workers` must outlive it.
  // A worker that exits with `preempt_exit_code` has not failed.
  JobEvents(EventLog& log, const WorkerGroup& workers, EventJob job, std::optional<int> preempt_exit_code = {},
            WorkerFiles* files = nullptr);

  void waiting_for_round();
  void round_formed(const rendezvous::Seat& seat);
  void worker_started(int local_rank);
  void failed(int local_rank) { failed_.emplace(local_rank, ""); }  // detected, perhaps before it has ended
  void workers_signalled() { stopping_ = true; }                    // any other worker that ends later was stopped
  void worker_ended(int local_rank);
  // `spent`: of the round on this node; empty: there was none.
  void round_ended(const rendezvous::EndRound& end, const std::optional<rendezvous::RoundSpent>& spent = {});
  void pace_changed(const rendezvous::ReportPace& report);
  void act_carried_out(const rendezvous::ReportAct& report);
  void measured(const Metric& metric);
  void progressed(const JobProgress& progress);
  bool on() const { return log_.on(); }
  void timer_expired(int local_rank, const ExpiredTimer& timer);
  // Of a worker that hangs, in several lines.
  void stacks_taken(int local_rank, const std::string& stacks);
  // Of the failure that has ended the job, as it was printed.
  void reported(const std::string& report);
  void finished(const rendezvous::Outcome& outcome, const std::optional<rendezvous::RoundSpent>& spent = {});

 private:
  bool several_nodes() const { return seat_ && seat_->group_world_size > 1; }
  JobEvent event(const std::string& state) const;
  JobEvent event_of(int local_rank, const std::string& state) const;
  void write(JobEvent event);
  void add_times(JobEvent& event, const rendezvous::RoundSpent& spent, rendezvous::RoundEnd how);

  EventLog& log_;
  const WorkerGroup& workers_;
  EventJob job_;
  std::optional<int> preempt_exit_code_;
  WorkerFiles* const files_;  // null: there are no error files
  TimePoint began_ = Clock::now(), waiting_since_ = Clock::now();
  std::optional<rendezvous::Seat> seat_;
  bool stopping_ = false;
  bool first_ = true;                  // nothing has been written
  int times_written_ = 0;              // the round whose times have been
  std::map<int, std::string> failed_;  // of the round, by local rank: the timer that expired, in words; empty: none
};

}  // namespace ddprun::agent
