// What of a round runs on this node: its workers, their store, timers and snapshots in memory, and what they leave.
//
// It decides nothing: the supervisor does. For the thread of the io_context.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/copies/node_memory.h"
#include "agent/process/groups/cgroup.h"
#include "agent/round/round_options.h"
#include "agent/round/round_store.h"
#include "agent/round/round_sweep.h"
#include "agent/round/round_timers.h"
#include "agent/round/worker_group.h"

namespace ddprun::agent {

class NodeRound {
 public:
  struct Hooks {
    std::function<bool(int local_rank, int error)> on_started;  // WorkerGroup's; false: start no more
    std::function<void()> on_all_started;
    std::function<void()> on_end;  // WorkerGroup's, as the next two
    std::function<void(const WorkerEnd&)> on_dying;
    std::function<void(int local_rank, int signal)> on_notice;
    std::function<void(int round)> on_swept;
    std::function<void()> on_template;  // WorkerTemplate::on_settled
    std::function<void(const std::string& sentence)> say;
    RoundTimers::Hooks timers;
    RoundStore::Hooks store;
    NodeMemory::Hooks memory;
  };
  // `options` must outlive it; users may change the number of workers, and each round its variables.
  NodeRound(asio::io_context& io, RoundOptions& options, WorkerStreams streams, Hooks hooks);

  // False: there is no control group, though one is wanted.
  bool prepare();
  void start_template();
  bool awaits_template() const { return template_ && template_->is_awaited(); }
  // The node is about to be offered: opens the store of its next round.
  void open_store();
  void take_seat(const rendezvous::Seat& seat, Coordination& coordination);
  // Before the round is confirmed: makes its files, then calls `ready`, now or later.
  void prepare_files(const std::function<void()>& ready) { workers_.prepare_files(*seat_, ready); }
  void begin(const rendezvous::Seat& seat);
  // One worker after the other; while one is forked the loop goes on.
  void start_workers() { start_from(0); }
  void stop_starting() { workers_.stop_starting(); }

  // Who stays in process comes to wait for the next round; who does not in time is ended as ever.
  void ask_to_leave();
  void stop_parking();  // no round follows
  // `at`: when the event was that asks for it.
  void signal(const SignalWorkers& order, TimePoint at);
  void sweep(int round);
  // Rounds go on without this node, and it joins when they are gone. False: SIGKILL has not reached all.
  bool hold(const std::vector<int>& local_ranks, const std::vector<pid_t>& others);
  const std::vector<int>& held() const { return held_ranks_; }
  // The round has ended: `planned` if its workers were asked to save.
  void ended(bool planned) { end_was_planned_ = planned; }
  // None of its workers is left, and another round may follow.
  void leave();
  // `others`: children of ours that belong to no worker.
  std::vector<WorkerEnd> collect(std::vector<pid_t> others);
  void reap_strays(std::vector<pid_t> others);
  // The job is over: ends those that wait for another round, and the template; then closes the rest.
  void end_workers();
  void close();

  WorkerGroup& workers() { return workers_; }
  const WorkerGroup& workers() const { return workers_; }
  RoundSweep& leftovers() { return sweep_; }
  const RoundStore& store() const { return store_; }
  RoundTimers& timers() { return timers_; }
  NodeMemory& memory() { return memory_; }
  const NodeMemory& memory() const { return memory_; }
  const std::optional<rendezvous::Seat>& seat() const { return seat_; }  // of the current round
  std::optional<TimePoint> workers_run_since() const { return workers_run_since_; }
  bool had_workers() const { return has_workers_; }  // they run, or have run in the current round
  bool end_was_planned() const { return end_was_planned_; }
  bool grace_is_over() const { return grace_is_over_; }
  // The only worker has the terminal, whose signals it gets itself.
  bool in_foreground() const { return in_foreground_ && seat_->workers == 1; }

 private:
  void start_from(int local_rank);
  void pass_memory();
  void change_workers(int workers);

  asio::io_context& io_;
  RoundOptions& options_;
  const Hooks hooks_;
  const bool in_foreground_;
  WorkerGroup workers_;
  RoundSweep sweep_;
  RoundTimers timers_;
  RoundStore store_;
  NodeMemory memory_;
  std::optional<WorkerTemplate> template_;
  std::optional<Cgroup> cgroup_;
  asio::steady_timer park_timer_;
  bool no_round_follows_ = false;
  std::optional<rendezvous::Seat> seat_;
  bool has_workers_ = false;
  bool end_was_planned_ = false;                // of the last round
  std::optional<TimePoint> stopping_since_;     // when its workers were first asked to end
  bool grace_is_over_ = false;                  // and those that were left SIGKILL
  std::optional<TimePoint> workers_run_since_;  // all of the round's, here
  std::vector<int> held_ranks_;                 // local ranks that SIGKILL has not ended; reported
};

}  // namespace ddprun::agent
