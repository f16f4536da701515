// The processes of one round on this node: starts, signals and reaps them. Holds no policy: the supervisor decides.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

#include "agent/channel/worker_channels.h"
#include "agent/logs/worker_streams.h"
#include "agent/prefork/worker_template.h"
#include "agent/process/groups/numa.h"
#include "agent/process/process_table.h"
#include "agent/process/worker_env.h"
#include "agent/process/worker_fence.h"
#include "agent/process/wrappers.h"
#include "agent/round/remains.h"
#include "agent/round/supervisor.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

struct WorkerCommand {
  std::string name;     // as the user typed it
  std::string program;  // a path, already looked up
  std::vector<std::string> argv;
  Environment inherited;
  JobIdentity job;
  bool core_dumps = false;
  std::vector<Binding> bindings = {};  // by local rank; empty: no binding
  int cgroup_fd = -1;                  // cgroup.h; -1: ours
  int snapshot_memory_fd = -1;         // SnapshotMemory; -1: none
  int copy_memory_fd = -1;             // CopyMemory; -1: none
  std::string typed = {};              // the name with its arguments, as words of a shell
  bool in_process = false;             // a worker that has lost a peer may wait for the next round
};

// What is known about a worker of the current round, for the report.
struct WorkerRecord {
  pid_t pid = 0;
  TimePoint started_at;
  std::optional<rendezvous::ExitStatus> status;
  int binding_error = 0;  // errno if its CPUs could not be set
  TimePoint ended_at;     // or began to die, if that was detected earlier
  std::chrono::system_clock::time_point ended_at_wall;
  std::filesystem::path folder, error_file;  // empty: none
  std::filesystem::path stderr_log;          // empty: none
  bool stayed = false;                       // the process of the round before
  bool late = false;                         // might have stayed, and did not come to wait in time
};

struct WorkerEnd {
  int local_rank = 0;
  rendezvous::ExitStatus status;
};

class WorkerGroup {
 public:
  // `on_end` is called from the loop whenever a worker may have ended: then call collect(). `on_dying`: a worker that
  // uses its channel is ending with a failure, and will be collected later. `on_notice`: a worker has got a signal that
  // announces a preemption.
  // `terminal_group`: the process group in the terminal's foreground; a worker that is the only one joins it.
  struct Hooks {
    std::function<void(int local_rank, int error)> on_started;
    std::function<void()> on_end;
    std::function<void(const WorkerEnd&)> on_dying;
    std::function<void(int local_rank, int signal)> on_notice;
  };
  WorkerGroup(asio::io_context& io, WorkerStreams streams, std::optional<pid_t> terminal_group, Hooks hooks);
  void make_error_folder() {
    streams_.make_error_folder();
    record_folder_ = streams_.record_folder();
  }
  // Before begin() of that round: makes its files, then calls `ready`, now or later.
  void prepare_files(const rendezvous::Seat& seat, const std::function<void()>& ready);
  // Forgets the previous round, whose workers are gone. All of a round are started by the same command.
  void begin(const rendezvous::Seat& seat);
  // 0, or the errno that kept it from being exec'd. `from`: null, or where it is forked if that can be: empty then, and
  // `on_started` is called later with the same. Empty as well while the fence is closed: the round is over. One at a
  // time.
  std::optional<int> start(const WorkerCommand& command, int local_rank, WorkerTemplate* from = nullptr);
  // The one that is being forked will not be wanted: it is none of the round's, and `on_started` is not called.
  void stop_starting();
  // --in-process: from now until the next round a worker that waits for it counts as ended, and SIGTERM is not sent to
  // one that may. A worker that parks before is not looked at.
  void let_park();
  // Sends SIGTERM to those that have not come to wait by now, if that is awaited. `late`: their time was up.
  void end_park(bool late);
  // One that is to be replaced, though it lives: it gets this signal, and may not wait for the next round.
  void replace(int local_rank, int signal);
  // Ends those that wait.
  void kill_parked();
  std::vector<pid_t> parked() const;
  // SIGINT or SIGTERM, which also wakes a stopped one, so that it can act on it. `delivered`: the terminal has sent it.
  void ask_to_end(int signal, StopScope scope, bool delivered);
  // Another signal, to the rank processes alone, or to their whole groups.
  void signal(int signal);
  void signal_groups(int signal);
  // SIGKILL to all that is left of them. True: no worker may execute an instruction any more, whatever the kernel holds
  // it for; false: one belongs to another user.
  bool kill_all();
  // Reaps the workers that have ended since the last call. The likely cause comes first: a death by signal before an
  // exit with an error, both before a success; before all of them an exit with `preempt_exit_code`, which announces a
  // preemption. One that was asked to end has ended when nothing is left that it has started: remains.h. `others`:
  // children of ours that belong to no worker.
  std::vector<WorkerEnd> collect(const StopPolicy& policy, const std::vector<pid_t>& others);
  // Reaps children of ours that are neither workers nor `others`: orphaned descendants.
  void reap_strays(std::vector<pid_t> others = {});
  WorkerChannels& channels() { return channels_; }
  // Of PyTorch's record of its collectives: <path>.sock, if the worker has opened it. Empty: there can be none.
  std::string record_path(int local_rank) const {
    return record_folder_.empty() ? "" : record_folder_ + "/" + std::to_string(local_rank);
  }
  WorkerFence& fence() { return fence_; }  // has the workers that run
  // Every worker reported that all its work is done, and exited with 0.
  bool all_finished(TimePoint now);
  // The process of a worker that has not been reaped.
  std::optional<pid_t> running(int local_rank) const;
  int world_size() const { return seat_.world_size; }
  int rank_of(int local_rank) const { return seat_.first_rank + local_rank; }
  const std::map<int, WorkerRecord>& records() const { return records_; }  // by local rank

 private:
  struct Live {
    pid_t pid;
    asio::posix::stream_descriptor fd;
    std::vector<std::string> environment = {};           // that it has been given
    std::filesystem::path folder = {}, stderr_log = {};  // of the round in which it was started
    WorkerPlace place = {};
    std::filesystem::path error_file = {};
    EndRequest asked = {};
    bool was_dying = false;  // before it was asked
    bool killed = false;     // and what is left of it is not waited for
    Remains remains = {};    // once it has ended
    bool notice_told = false;

    ChildProcess child() { return {pid, fd.native_handle()}; }
  };
  struct Starting {  // what it takes to start one
    int local_rank;
    WorkerPlace place;
    WorkerStreams::Streams streams;
    SpawnRequest request;
    bool may_stay;
  };
  Starting prepare(const WorkerCommand& command, int local_rank, bool by_template);
  int started(const Starting& one, Spawned spawned);
  void on_forked(std::optional<Spawned> forked, const WorkerTemplate::Go& go);
  // False: it is gone, and is to be started.
  bool seat_parked(const WorkerCommand& command, int local_rank);
  bool may_stay(int local_rank) const;
  WorkerPlace place_of(int local_rank) const;
  void reap_parked();
  void park(std::vector<WorkerEnd>& ends);
  void watch(int local_rank, Live& worker);
  std::vector<int> ended();  // local ranks that have ended and are not reaped yet
  // Children of ours that are neither workers nor what is known to be left by them.
  std::vector<pid_t> strays(const std::vector<pid_t>& others) const;
  Live* left_by(pid_t stray, const TaskStat& stat);
  void find_remains(const std::vector<int>& stopped, const std::vector<pid_t>& others);
  bool awaits_remains(int local_rank, Live& worker);
  // It was asked to end, or a signal has ended it that may announce a preemption.
  bool was_stopped(Live& worker, const StopPolicy& policy);
  void tell_of_notice(int local_rank);
  void ask(int local_rank, Live& worker, int signal, StopScope scope, bool delivered);
  void kill_remains(Live& worker);
  void on_hint(int local_rank);
  static void note_end(WorkerRecord& record);
  // A single worker in the terminal's foreground does not lead one.
  bool leads_group() const { return seat_.workers > 1 || !terminal_group_; }
  // What it has of its own. Makes environment_of_round_ the first time in a round: every worker has the same names.
  std::vector<std::string> own_environment(const WorkerCommand& command, int local_rank, int channel);
  std::vector<std::string> whole_environment(std::vector<std::string> own) const;  // `own`: of own_environment()

  asio::io_context& io_;
  WorkerStreams streams_;
  std::string record_folder_;
  std::optional<pid_t> terminal_group_;
  const Hooks hooks_;
  WorkerChannels channels_;
  WorkerFence fence_;
  rendezvous::Seat seat_;
  std::vector<std::string> environment_of_round_;  // of its workers, without what each has of its own
  std::map<int, Live> live_;                       // by local rank
  std::map<int, Live> parked_;                     // the same; they count as ended
  bool parking_ = false;
  std::optional<Starting> starting_;  // that is being forked, by:
  WorkerTemplate* from_ = nullptr;
  std::set<int> replaced_;
  std::map<int, WorkerRecord> records_;
  std::string cookie_;  // of the job
};

}  // namespace ddprun::agent
