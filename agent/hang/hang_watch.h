// Whether the workers of this node get on. Learns from their beats how long each activity takes.
//
// A value: it owns no clock and no page. Only workers that report beats, or steps and phases for which a limit was set
// by hand, can be overdue. Time in which the agent itself did not run (Ctrl-Z, a suspended machine, an overloaded one)
// counts for nobody, nor does time for which a worker waits for a processor, up to three quarters of any time: one that
// hangs is found though its other threads crowd the machine.
//
// Limits that are learned: a step's parts (load, compute, wait) may take as long as three median steps, or twice what
// such a part has taken before (99th percentile of the last 256), and at least 2 s; nothing is known before ten steps.
// Saves and evaluations may take five times the longest of the last eight, and at least 30 s, as a busy disk may; a
// start five times the longest part of an earlier one, and at least ten minutes, as anything that has not been seen
// yet. The end has no limit. Fewer ranks than before may have more to do each: until ten steps of the round are done,
// the limits of a step's parts grow in proportion.
//
// These limits say when a worker is late, which is looked into and said. When it is ended is another question: where
// the program's phases are only inferred a pause may be anything, so it is compared with what a restart would cost.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/hang/hang_limits.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/learned_times.h"
#include "rendezvous/coordination/account/standing.h"

namespace ddprun::agent {

// What a worker's page and /proc show.
struct WorkerSight {
  rendezvous::Activity activity = rendezvous::Activity::start;
  std::string collective = {};
  bool beats = false;      // it tells loading, computing and waiting apart
  bool inferred = false;   // Progress::inferred
  bool only_seen = false;  // Progress::only_seen
  std::optional<std::uint64_t> step = {};
  std::uint64_t steps_done = 0;      // in this round
  Duration in_steps = {};            // spent in load, compute and wait in this round
  std::optional<TimePoint> at = {};  // of its last report; empty: it has reported nothing
  bool traced = false;               // by a debugger: that time counts for nobody
  Duration starved = {};             // since the last look: it could have run, and others had the processors
};

class HangWatch {
 public:
  explicit HangWatch(HangLimits limits) : limits_(std::move(limits)) {}

  // What was learned stays. `learned`: by others, in earlier rounds; it counts where we have learned nothing
  // ourselves.
  void begin_round(int workers, int world_size, const rendezvous::LearnedTimes& learned, TimePoint now);
  // Of every worker that lives, by local rank. Call it at next_look() and not before.
  void look(const std::map<int, WorkerSight>& workers, TimePoint now);
  // What has passed until now counts for nobody.
  void forgive(TimePoint now);
  bool is_overdue(int local_rank) const;
  rendezvous::Activity activity(int local_rank) const;
  // When the worker last reported something; empty: never.
  std::optional<TimePoint> last_report(int local_rank) const;
  // A worker does not get on in the activity that it is in.
  bool any_overdue() const;
  // Overdue by the last look. `rank`s are local.
  std::vector<rendezvous::Standing> standings() const;
  TimePoint next_look() const { return next_look_; }
  // When a worker is late. Empty: never.
  std::optional<Duration> limit_of(rendezvous::Activity activity, bool beats) const;
  // How long it may stand still before it is ended. `known_place`: one was ended there before, in vain. Empty: for
  // ever.
  std::optional<Duration> patience(int local_rank, bool known_place) const;
  Duration age(int local_rank) const;  // since its last report
  std::optional<Duration> median_step() const;
  // The same of this round's steps alone, for people. Empty: none was seen to end.
  std::optional<Duration> recent_step() const;

  rendezvous::LearnedTimes learned() const;
  // The same, if the others should know: when the warm-up is over, and whenever a time has grown by half since. At
  // most every ten seconds.
  std::optional<rendezvous::LearnedTimes> news(TimePoint now);

 private:
  struct Worker {
    WorkerSight sight;
    TimePoint since;    // its last report, or when it was forgiven
    Duration age = {};  // at the last look
    bool overdue = false;
    std::optional<TimePoint> counted_from = {};  // steps are counted from here
    std::uint64_t counted_steps = 0;
    TimePoint saved_at = {};  // the end of its last save, or the round's begin
  };
  struct Window {  // of the times that something took
    std::deque<Duration> last = {};
    void add(Duration time, std::size_t most);
    std::optional<Duration> quantile(double share) const;
  };
  void learn(Worker& worker, const WorkerSight& now_sees, TimePoint now);
  void learn_step(Worker& worker, const WorkerSight& now_sees, TimePoint now);
  void restore(const rendezvous::LearnedTimes& learned);
  void take_longer(const rendezvous::LearnedTimes& learned);
  double growth() const;  // of the limits of a step's parts
  bool is_unlike_restored() const;
  Duration lost_by_restart(const Worker& worker) const;
  std::optional<Duration> learned_limit(rendezvous::Activity activity, bool beats) const;

  HangLimits limits_;
  std::map<int, Worker> workers_;
  std::map<rendezvous::Activity, Window> took_;
  Window step_took_, round_step_took_;
  std::optional<Duration> mean_step_;  // of a worker, where no step was seen to end yet
  std::uint64_t steps_ = 0;            // of the worker that has done most, in all rounds
  std::uint64_t steps_before_round_ = 0;
  int world_size_ = 0;             // of this round
  int learned_with_ = 0;           // the world size of the steps that were learned from; 0: nothing was learned
  std::uint64_t round_steps_ = 0;  // of the worker that has done most in this round
  std::optional<Duration> restored_step_ = {};  // until ten steps of our own show whether it still holds
  rendezvous::LearnedTimes told_ = {};
  std::optional<TimePoint> news_at_;
  std::optional<TimePoint> last_look_;
  TimePoint next_look_ = {};
};

}  // namespace ddprun::agent
