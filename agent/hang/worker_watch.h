// Watches whether the workers of this node get on: tells the coordinator how those that do not stand, and finds the one
// that it blames. hang_watch.h decides who is late; this looks, takes stacks and keeps them.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/channel/channel_page.h"
#include "agent/hang/hang_watch.h"
#include "agent/hang/processor_wait.h"
#include "agent/hang/record_reader.h"
#include "agent/hang/signs_of_life.h"
#include "agent/stacks/take_stacks.h"
#include "agent/stacks/top_frame.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// The round's workers, as those see them who watch. Ranks are local.
struct WorkersSeen {
  std::function<std::map<int, pid_t>()> running;  // not reaped
  std::function<std::vector<int>()> ended_well;
  std::function<Progress(int local_rank)> progress;
  std::function<void(int signal)> signal_groups;
  std::function<std::string(int local_rank)> record_path = {};  // WorkerGroup::record_path(); null: there are none
};

// A worker that holds up its round.
struct HungWorker {
  int round = 0, local_rank = 0;
  std::string how;      // Failure::how
  bool of_all = false;  // Failure::of_all
  std::string place;    // Failure::place
  ProcessStacks stacks;
};

// A worker that holds up its round, and is not ended, or not yet.
struct StandingWorker {
  int local_rank = 0;
  std::string how;                        // as HungWorker's
  std::optional<Duration> patience = {};  // until it is ended; empty: for ever
  std::string sign = {};                  // SignsOfLife: it is not ended at all
};

class WorkerWatch {
 public:
  struct Hooks {
    std::function<std::optional<int>()> running_round;                      // of which no end was decided
    std::function<void(std::vector<rendezvous::Standing>)> tell_standings;  // of all workers here; ranks are global
    std::function<void(const rendezvous::LearnedTimes&)> tell_learned;
    std::function<void(const HungWorker&)> on_hung;
    std::function<void(const StandingWorker&)> on_standing;
    std::function<void(int local_rank, Duration stood)> on_moving;   // one of which on_standing was told
    std::function<void(const std::map<int, WorkerSight>&)> on_look;  // whenever the workers' pages were read
    std::function<void(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>&)> keep_stacks;
  };
  WorkerWatch(asio::io_context& io, HangLimits limits, WorkersSeen workers, Hooks hooks);

  // `environment`: of the tools that take stacks.
  void start(std::vector<std::string> environment);
  void begin_round(const rendezvous::Seat& seat);
  // Once all of its workers run.
  void workers_run(const rendezvous::Seat& seat);

  // Reads all pages.
  void look();
  // By the last look; of workers that have ended well, too. Ranks are global.
  std::vector<rendezvous::Standing> standings() const;
  std::optional<Duration> recent_step() const { return hangs_.recent_step(); }
  // The coordinator asks how they stand: told with the stacks of those that seem to hold up the others, and records.
  void tell_standings() { tell_standings(Why::asked); }
  // The coordinator blames a worker here.
  void blame(int round, int rank, const std::string& text, bool of_all);
  // All of them, by a user.
  void suspend(bool suspended);
  bool suspended() const { return suspended_; }
  const std::optional<HungWorker>& hung() const { return hung_; }  // in this round

  // Before SIGTERM for another one's failure: takes the stacks of those that stand still, then calls `then`, which says
  // whether the workers still run. False: there is nothing to take, and `then` is not called.
  bool takes_stacks_before(std::function<bool()> then);
  void take_stacks(std::vector<pid_t> pids, Duration limit, AsyncStacks::OnTaken on_taken);

 private:
  struct Told {                           // in the last standings
    std::optional<TimePoint> since = {};  // its last report then
    bool waits = false;                   // by its beats or its stack
  };
  struct Blamed {
    int round, local_rank;
    std::string text;
    bool of_all;
    Told told;
  };
  struct KnownStacks {
    std::optional<TimePoint> since;  // its last report then
    TimePoint at;
    ProcessStacks stacks;
    std::optional<TopFrame> top;
    bool stopped = false;  // by a signal; seen before its threads were stopped for the stacks
  };
  struct KnownRecord {
    std::optional<TimePoint> since;  // its last report then
    TimePoint at;
    rendezvous::CollectiveRecord record;
  };
  struct Looks {  // at stacks and records, before standings are told
    int round;
    int left = 0;
  };
  enum class Why { asked, someone_is_late };
  void watch();
  void tell_standings(Why why);
  void look_at_stacks(const std::vector<rendezvous::Standing>& all, const std::shared_ptr<Looks>& looks);
  void look_at_records(const std::shared_ptr<Looks>& looks);
  void end_look(Looks& looks);
  const KnownRecord* known_record(int local_rank) const;  // since its last report, and fresh; null: none
  Duration record_fresh(int local_rank) const;
  void send_standings();
  void on_culprits_stacks(const Blamed& blamed, const ProcessStacks& stacks);
  std::string what_lacks(int local_rank) const;
  // Before it is ended: whether it stays, which is then told once.
  bool waits_for_it(const HungWorker& worker, const ProcessStacks& stacks, bool in_collective);
  void learn_life(int local_rank, const ProcessStacks& stacks);
  std::string sign_of_life(int local_rank) const;  // since its last report
  void forget_moving();
  const KnownStacks* known_stacks(int local_rank) const;  // since its last report, some seconds old; null: none
  void learn_stacks(int local_rank, std::optional<TimePoint> since, const ProcessStacks& stacks, bool stopped);
  void keep(const std::vector<int>& local_ranks, const std::vector<ProcessStacks>& stacks);

  const WorkersSeen workers_;
  const Hooks hooks_;
  HangWatch hangs_;
  ProcessorWait processor_wait_;
  asio::steady_timer timer_;
  std::optional<AsyncStacks> stacks_;
  asio::io_context& io_;
  rendezvous::Seat seat_ = {};  // of round 0: there was none
  TimePoint workers_run_at_ = {};
  bool suspended_ = false;
  std::optional<HungWorker> hung_;
  TimePoint standings_sent_ = {};
  std::set<int> stacks_taken_;                // of these local ranks, in this round
  std::map<int, KnownStacks> known_stacks_;   // by local rank
  std::map<int, KnownRecord> known_records_;  // by local rank
  RecordReader records_;
  int looks_for_round_ = 0;   // to tell standings with what is seen
  std::map<int, Told> told_;  // by local rank
  struct Life {
    std::optional<TimePoint> since;  // its last report then
    SignsOfLife signs = {};
  };
  std::map<int, Life> lives_;  // by local rank: of those whose stacks were taken
  struct Stands {
    std::optional<TimePoint> since;  // its last report
    std::string place;
    bool told = false, told_life = false;
  };
  std::map<int, Stands> stand_;        // by local rank: blamed, and not ended
  std::set<std::string> told_places_;  // each is said once
};

}  // namespace ddprun::agent
