// A job's life as this node's agent sees it, told as events to whoever reads the event log.
//
// The agent calls it when the matching thing happens. Nothing is made where nobody reads.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "agent/channel/file_timer.h"
#include "agent/logs/event_log.h"
#include "agent/worker_group.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

class JobEvents {
 public:
  // `log` and `workers` must outlive it.
  JobEvents(EventLog& log, const WorkerGroup& workers, EventJob job);

  void waiting_for_round();
  void round_formed(const rendezvous::Seat& seat);
  void worker_started(int local_rank);
  void failed(int local_rank) { failed_.emplace(local_rank, ""); }  // noticed, perhaps before it has ended
  void workers_signalled() { stopping_ = true; }                    // from here on, whoever else is gone was stopped
  void worker_ended(int local_rank);
  void timer_expired(int local_rank, const ExpiredTimer& timer);
  void finished(const rendezvous::Outcome& outcome);

 private:
  JobEvent event(const std::string& state) const;
  JobEvent event_of(int local_rank, const std::string& state) const;

  EventLog& log_;
  const WorkerGroup& workers_;
  EventJob job_;
  TimePoint began_ = Clock::now(), waiting_since_ = Clock::now();
  std::optional<rendezvous::Seat> seat_;
  bool stopping_ = false;
  std::map<int, std::string> failed_;  // of the round, by local rank: which timer ran out, in words; empty: none
};

}  // namespace ddprun::agent
