#include "agent/worker_group.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "rendezvous/memory/snapshot_memory.h"

namespace ddprun::agent {
namespace {

// Its descriptor's number in a worker: below those that the channel and a template use.
int snapshot_memory_number() { return channel_number() - 3; }

int urgency(const rendezvous::ExitStatus& status, std::optional<int> preempt_exit_code) {
  if (preempt_exit_code && status.code == *preempt_exit_code) return -1;
  if (status.signal && status.signal != SIGTERM) return 0;
  return status.ok() ? 2 : 1;
}

// The workers are unreaped, so their pids are still valid. A stopped one must wake up to act on SIGTERM.
void send(pid_t to, int signal) {
  kill(to, signal);
  if (signal == SIGTERM) kill(to, SIGCONT);
}

const Fd& null_input() {
  static const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return null;
}

}  // namespace

WorkerGroup::WorkerGroup(asio::io_context& io, WorkerStreams streams, std::optional<pid_t> terminal_group,
                         std::function<void()> on_end, std::function<void(const WorkerEnd&)> on_dying,
                         std::function<void(int local_rank, int signal)> on_notice)
    : io_(io),
      streams_(std::move(streams)),
      terminal_group_(terminal_group),
      on_end_(std::move(on_end)),
      on_dying_(std::move(on_dying)),
      on_notice_(std::move(on_notice)),
      channels_(io, [this](int local_rank) { on_hint(local_rank); }) {}

void WorkerGroup::begin(const rendezvous::Seat& seat) {
  live_.clear();
  records_.clear();
  channels_.begin();
  seat_ = seat;
}

int WorkerGroup::start(const WorkerCommand& command, int local_rank, WorkerTemplate* from) {
  const int rank = seat_.first_rank + local_rank;
  WorkerRecord& record = records_[local_rank];
  const bool alone = seat_.workers == 1;
  const WorkerStreams::Streams streams = streams_.open({seat_.round, seat_.restarts, rank, local_rank}, alone);
  record.folder = streams.folder;
  record.error_file = streams.error_file;
  record.stderr_log = streams.stderr_log;

  const int page = channels_.open(local_rank, Clock::now()), number = page >= 0 ? channel_number() : -1;
  SpawnRequest request{command.program, with_local_rank(command.argv, local_rank),
                       environment(command, local_rank, number)};
  request.stdin_fd = rank == 0 ? 0 : null_input().get();
  if (streams.out) request.stdout_fd = streams.out.get();
  if (streams.err) request.stderr_fd = streams.err.get();
  request.core_dumps = command.core_dumps;
  request.cgroup_fd = command.cgroup_fd;
  if (const auto place = static_cast<std::size_t>(local_rank); place < command.bindings.size()) {
    request.cpus = command.bindings[place].cpus;
    request.memory_nodes = command.bindings[place].memory_nodes;
  }
  if (alone) request.foreground_group = terminal_group_;
  if (number >= 0) request.passed.push_back({page, number});
  if (command.snapshot_memory_fd >= 0) request.passed.push_back({command.snapshot_memory_fd, snapshot_memory_number()});
  std::optional<Spawned> forked;
  if (from) forked = from->fork(request);
  Spawned spawned = forked ? std::move(*forked) : spawn(request);
  if (spawned.error) {
    record.status = rendezvous::ExitStatus{.start_error = spawned.error};
    record.started_at = Clock::now();
    note_end(record);
    return spawned.error;
  }
  record.pid = spawned.pid;
  record.binding_error = spawned.binding_error;
  record.started_at = Clock::now();
  const auto [live, fresh] =
      live_.emplace(local_rank, Live{spawned.pid, asio::posix::stream_descriptor(io_, spawned.pidfd.release())});
  watch(live->second);
  channels_.started(local_rank);
  return 0;
}

void WorkerGroup::note_end(WorkerRecord& record) {
  if (record.ended_at != TimePoint()) return;
  record.ended_at = Clock::now();
  record.ended_at_wall = std::chrono::system_clock::now();
}

void WorkerGroup::on_hint(int local_rank) {
  const auto worker = live_.find(local_rank);
  if (worker == live_.end()) return;
  if (const auto status = dying_status(worker->second.pid)) {
    note_end(records_[local_rank]);
    return on_dying_({local_rank, *status});
  }
  if (const auto signal = channels_.new_notice(local_rank, Clock::now())) on_notice_(local_rank, *signal);
}

std::vector<std::string> WorkerGroup::environment(const WorkerCommand& command, int local_rank, int channel) const {
  const std::string error_file = records_.at(local_rank).error_file.string();
  Environment own = worker_variables(command.job, seat_, local_rank, error_file, command.inherited);
  own[DDPRUN_CHANNEL_VARIABLE] = channel >= 0 ? std::to_string(channel) : "";  // never that of an outer ddprun
  if (command.snapshot_memory_fd >= 0)
    own[kSnapshotMemoryVariable] = std::to_string(snapshot_memory_number()) + ":" + std::to_string(local_rank);
  else if (command.inherited.contains(kSnapshotMemoryVariable))
    own[kSnapshotMemoryVariable] = "";
  own[DDPRUN_PREEMPT_SIGNALS_VARIABLE] = command.job.preempt_signals;
  return merged(command.inherited, own);
}

void WorkerGroup::watch(Live& worker) {
  worker.pidfd.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) on_end_();
  });
}

void WorkerGroup::signal(int signal) {
  for (const auto& [local_rank, worker] : live_) send(worker.pid, signal);
}

void WorkerGroup::signal_groups(int signal) {
  for (const auto& [local_rank, worker] : live_) send(leads_group() ? -worker.pid : worker.pid, signal);
}

bool WorkerGroup::kill_all() {
  bool all = true;
  for (const auto& [local_rank, worker] : live_) {
    if (leads_group()) kill(-worker.pid, SIGKILL);
    all &= kill(worker.pid, SIGKILL) == 0;
  }
  return all;
}

// One poll for all: one waitid per worker at every end adds up to thousands of calls if hundreds end together.
std::vector<int> WorkerGroup::ended() {
  std::vector<pollfd> pidfds;
  for (auto& [local_rank, worker] : live_) pidfds.push_back({worker.pidfd.native_handle(), POLLIN, 0});
  poll(pidfds.data(), pidfds.size(), 0);
  std::vector<int> out;
  auto look = pidfds.begin();
  for (const auto& [local_rank, worker] : live_)
    if ((look++)->revents) out.push_back(local_rank);
  return out;
}

std::vector<WorkerEnd> WorkerGroup::collect(std::optional<int> preempt_exit_code) {
  std::vector<WorkerEnd> ends;
  for (const int local_rank : ended()) {
    Live& worker = live_.at(local_rank);
    const auto status = reap(worker.pidfd.native_handle(), leads_group() ? worker.pid : 0);
    if (!status) continue;
    WorkerRecord& record = records_[local_rank];
    record.status = status;
    note_end(record);
    channels_.ended(local_rank);
    ends.push_back({local_rank, *status});
    live_.erase(local_rank);
  }
  std::stable_sort(ends.begin(), ends.end(), [&](const WorkerEnd& a, const WorkerEnd& b) {
    return urgency(a.status, preempt_exit_code) < urgency(b.status, preempt_exit_code);
  });
  return ends;
}

void WorkerGroup::reap_strays(const std::vector<std::optional<pid_t>>& others) {
  std::vector<pid_t> spared;
  for (const auto& [local_rank, worker] : live_) spared.push_back(worker.pid);
  for (const std::optional<pid_t>& other : others)
    if (other) spared.push_back(*other);
  reap_orphans(spared);
}

bool WorkerGroup::all_finished(TimePoint now) {
  return channels_.all_finishing(now) && std::all_of(records_.begin(), records_.end(), [](const auto& entry) {
           return entry.second.status && entry.second.status->ok();
         });
}

}  // namespace ddprun::agent
