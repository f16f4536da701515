// What ddprun itself prints about a job: that it stops or restarts, what is left behind, and why it failed.
//
// A line each while the job runs, one screen at its end; nothing if all goes well. It holds no policy: the agent
// calls each function when the event happens.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/channel/timer_table.h"
#include "agent/diagnosis/error_file.h"
#include "agent/diagnosis/oom_count.h"
#include "agent/logs/log_layout.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/output_watch.h"
#include "agent/process/files/file_thread.h"
#include "agent/round/worker_group.h"
#include "agent/stacks/process_stacks.h"
#include "agent/tell/worker_files.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/failure_rules.h"
#include "rendezvous/coordination/round/round.h"
#include "rendezvous/coordination/wire/control_message.h"

namespace ddprun::agent {

struct Clues;
struct FailureReport;
struct StandingWorker;

// What is known of a round when a worker fails.
struct RoundSoFar {
  std::optional<bool> progressed = {};  // WorkerFailed's
  bool lived = false;                   // it has run for long enough to count as progress
  bool nothing_saved = false;           // WorkerChannels'
  std::optional<WorkerChannels::Unasked> unasked = {};

  bool has_progressed() const { return progressed.value_or(lived); }
};

struct ReporterOptions {
  std::string program;                 // as the user typed it, with its arguments
  std::string program_path;            // what is exec'd
  std::string host;                    // this machine's name
  std::string own_error_file = {};     // gets the job's error, as torchrun's TORCHELASTIC_ERROR_FILE; empty: no file
  bool core_dumps = false;             // workers may write core files
  bool prints_end = true;              // else the program that started ddprun tells how the job ended
  std::vector<std::string> argv = {};  // of a worker
};

// "http://localhost:38411/ on n1; from elsewhere: ssh -L 38411:localhost:38411 n1", where that listens. `host`: this
// machine's name. `sits_elsewhere`: who reads it may sit at another one. Pure.
std::string page_place(bool https, const std::string& address, std::uint16_t port, const std::string& host,
                       bool sits_elsewhere);

class Reporter {
 public:
  // All must outlive it.
  Reporter(LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, FileThread& files,
           WorkerFiles& worker_files, ReporterOptions options);

  // Empty: the user knows where.
  void logs_are_in(const std::filesystem::path& folder);
  void metrics_are_at(bool https, const std::string& address, std::uint16_t port);
  // `sits_elsewhere`: who reads it may sit at another machine.
  void page_is_at(bool https, const std::string& address, std::uint16_t port, bool sits_elsewhere);
  void error_files_are_in(const std::filesystem::path& folder);  // left by a failed job; empty: nothing
  // What was requested but is impossible: printed once.
  void not_bound(const std::vector<Binding>& bindings);
  void no_cgroup();
  void no_snapshot_memory(const std::string& why);
  void no_proc();
  void ended_leftovers(int processes, const std::string& run_id);
  void preempted(int signal);
  void worker_noticed(int local_rank, int signal);  // and not ddprun itself
  void worker_preempted(int local_rank, int code);
  void probe_noticed(const std::string& why);
  void run_is_over(Duration allowed);
  void stopping(int signal, Duration grace);
  void waiting(const std::vector<int>& local_ranks, Duration left);
  // SIGKILL did not end them.
  void held(const std::vector<int>& local_ranks);
  // The same for the coordinator, as the reason why this node is in no round.
  std::string survivors(const std::vector<int>& local_ranks) const;
  // What an interrupted job could not save. `cut_after`: a save was not finished when SIGKILL came, after this time.
  void lost(const WorkerChannels::Unsaved& unsaved, std::optional<Duration> cut_after);
  // The same of a script that knows nothing of its channel; `asked`: by a preemption.
  void lost(const WorkerChannels::Unasked& unasked, bool asked);
  // They were asked to save, and did not end with the code that says that they have.
  void may_be_lost(const std::vector<int>& local_ranks, int code);
  void still_there(const std::vector<pid_t>& processes, int round);

  void round_begins();  // forgets the previous round's workers
  void workers_run();   // all have been exec'd; reads the memory counters, which takes a while, as the workers load
  void timer_expired(int local_rank, const ExpiredTimer& timer);
  // A worker holds up the round: `how` as in Failure.
  void hang_found(int local_rank, const std::string& how, const ProcessStacks& stacks);
  // It does so and is not ended, or not yet.
  void stands_still(const StandingWorker& worker);
  void goes_on(int local_rank, Duration stood);
  // No worker here has reported anything, and none has moved for that long.
  void all_still(Duration stood);
  // Prints a straggler, once; the rest is for the event log.
  void pace_changed(const rendezvous::ReportPace& report);
  // What somebody has done to the job by `ddprun ctl`. A new round says by whom itself.
  void act_carried_out(const rendezvous::ReportAct& report);
  void output_found(const OutputRule& rule);
  void pattern_dropped(const std::string& whose, const std::string& pattern);
  // On the last lines of a failed worker.
  void rule_too_slow(const rendezvous::FailureRule& rule, int rank);
  void noticed(const rendezvous::Failure& failure);  // the round's first failure
  // Of a failure that was noticed.
  rendezvous::FailureClass class_of(const rendezvous::Failure& failure, bool progressed) const;
  void restarting(const rendezvous::Failure& failure, const std::string& reason, const RoundSoFar& round);
  // Prints and returns the screen at the end, and writes ddprun's own error file. `outcome` has a cause on this node.
  std::string failed(const rendezvous::Outcome& outcome);
  // That screen as far as it is known, for the other nodes.
  std::string report_text(const rendezvous::Outcome& outcome) const;
  // The cause is on another node; empty: its report has not arrived.
  std::string failed_elsewhere(const rendezvous::Outcome& outcome, const std::optional<std::string>& report);
  // Without a worker's failure.
  void ended(const rendezvous::Outcome& outcome);

  void regrouping(const rendezvous::EndRound& end);  // not because of a failure here
  void unhealthy(const std::string& why);
  void excluded(const rendezvous::Excluded& excluded);
  void only_here(const std::string& host, const std::string& option);  // where the nodes meet, and the option for it

 private:
  struct Noticed {
    int round = 0;
    TimePoint at;
    WallTime at_wall;
    OomCounts memory;
  };
  Noticed notice_of(const rendezvous::Failure& failure) const;
  void print_end(const std::string& text);
  FailureReport report_of(const rendezvous::Outcome& outcome) const;
  std::string named(const std::vector<int>& local_ranks) const;
  Clues clues_of(const rendezvous::Failure& failure) const;
  std::string held_back(const rendezvous::Failure& failure) const;
  std::string note_of(const rendezvous::Failure& failure) const;
  std::string core_in_words(const rendezvous::Failure& failure, const WorkerRecord& record) const;
  void write_own_error_file(const FailureReport& report, const std::string& worker_content);
  std::string error_content(const WorkerRecord& record) const;

  LogPipes& pipes_;
  const LogLayout& layout_;
  const WorkerGroup& workers_;
  FileThread& files_;
  WorkerFiles& worker_files_;
  ReporterOptions options_;
  OomCounts memory_before_;             // of the round
  std::map<int, ExpiredTimer> timers_;  // of the round, by local rank
  std::string output_rule_;             // that applied in the round, in words
  std::optional<Noticed> noticed_;
  bool has_restarted_ = false;
};

}  // namespace ddprun::agent
