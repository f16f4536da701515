#include "agent/round/worker_group.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include <asio/post.hpp>

#include "agent/process/children.h"
#include "rendezvous/base/handler_time.h"
#include "rendezvous/memory/copy_memory.h"
#include "rendezvous/memory/snapshot_memory.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::seconds kParkedEnd{10};

// Its descriptor's number in a worker: below those that the channel and a template use.
int snapshot_memory_number() { return channel_number() - 3; }
int copy_memory_number() { return channel_number() - 4; }

int urgency(const rendezvous::ExitStatus& status, std::optional<int> preempt_exit_code) {
  if (preempt_exit_code && status.code == *preempt_exit_code) return -1;
  if (status.signal && status.signal != SIGTERM) return 0;
  return status.ok() ? 2 : 1;
}

// The workers are unreaped, so their pids are still valid. A stopped one must wake up to act on a request to end.
void send(pid_t to, int signal) {
  kill(to, signal);
  if (signal == SIGTERM || signal == SIGINT) kill(to, SIGCONT);
}

bool is_readable(asio::posix::stream_descriptor& fd) {
  pollfd now{fd.native_handle(), POLLIN, 0};
  return poll(&now, 1, 0) == 1;
}

const Fd& null_input() {
  static const Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return null;
}

}  // namespace

WorkerGroup::WorkerGroup(asio::io_context& io, WorkerStreams streams, std::optional<pid_t> terminal_group, Hooks hooks)
    : io_(io),
      streams_(std::move(streams)),
      terminal_group_(terminal_group),
      hooks_(std::move(hooks)),
      channels_(io, [this](int local_rank) { on_hint(local_rank); }) {}

void WorkerGroup::prepare_files(const rendezvous::Seat& seat, const std::function<void()>& ready) {
  std::vector<WorkerPlace> places;
  std::set<int> staying;
  for (int local_rank = 0; local_rank < seat.workers; ++local_rank) {
    places.push_back({seat.round, seat.restarts, seat.first_rank + local_rank, local_rank});
    if (parked_.contains(local_rank)) staying.insert(local_rank);
  }
  streams_.prepare(io_, places, staying, ready);
}

void WorkerGroup::begin(const rendezvous::Seat& seat) {
  live_.clear();
  records_.clear();
  environment_of_round_.clear();
  reap_parked();
  std::set<int> kept;
  for (const auto& [local_rank, worker] : parked_) kept.insert(local_rank);
  channels_.begin(kept);
  seat_ = seat;
  parking_ = false;
  replaced_.clear();
  for (auto& [local_rank, worker] : parked_) {
    const WorkerPlace before = std::exchange(worker.place, place_of(local_rank));
    worker.error_file = streams_.go_on(before, worker.place).error_file;
  }
}

WorkerPlace WorkerGroup::place_of(int local_rank) const {
  return {seat_.round, seat_.restarts, seat_.first_rank + local_rank, local_rank};
}

void WorkerGroup::let_park() {
  parking_ = true;
  asio::post(io_, hooks_.on_end);  // some may wait already
}

bool WorkerGroup::may_stay(int local_rank) const {
  return parking_ && !replaced_.contains(local_rank) && channels_.may_park(local_rank);
}

void WorkerGroup::end_park(bool late) {
  for (auto& [local_rank, worker] : live_) {
    if (!may_stay(local_rank) || channels_.is_parked(local_rank)) continue;
    records_[local_rank].late = late;
    ask(local_rank, worker, SIGTERM, StopScope::automatic, /*delivered=*/false);
  }
}

void WorkerGroup::replace(int local_rank, int signal) {
  const auto worker = live_.find(local_rank);
  if (!parking_ || worker == live_.end() || !replaced_.insert(local_rank).second) return;
  if (signal == SIGTERM) return ask(local_rank, worker->second, signal, StopScope::automatic, /*delivered=*/false);
  worker->second.killed |= signal == SIGKILL;
  send(worker->second.pid, signal);
}

std::vector<pid_t> WorkerGroup::parked() const {
  std::vector<pid_t> pids;
  for (const auto& [local_rank, worker] : parked_) pids.push_back(worker.pid);
  return pids;
}

void WorkerGroup::kill_parked() {
  reap_parked();  // not to kill whoever has got its pid
  for (auto& [local_rank, worker] : parked_) {
    kill(-worker.pid, SIGKILL);
    kill(worker.pid, SIGKILL);
  }
  const MayWait for_their_ends;
  const TimePoint end = Clock::now() + kParkedEnd;
  for (auto& [local_rank, worker] : parked_) {
    pollfd ended{worker.fd.native_handle(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
  }
  reap_parked();
}

// One that is dying is dropped, too: it frees its memory for a while yet, and is reaped with strays.
void WorkerGroup::reap_parked() {
  for (auto entry = parked_.begin(); entry != parked_.end();) {
    auto& [local_rank, worker] = *entry;
    if (is_readable(worker.fd))
      reap(worker.child(), worker.pid);  // unless the sweep of leftovers has
    else if (dying_status(worker.pid))
      kill(-worker.pid, SIGKILL);
    else {
      ++entry;
      continue;
    }
    channels_.ended(local_rank);
    entry = parked_.erase(entry);
  }
}

bool WorkerGroup::seat_parked(const WorkerCommand& command, int local_rank) {
  const auto parked = parked_.find(local_rank);
  if (parked == parked_.end()) return false;
  Live& worker = parked->second;
  WorkerRecord& record = records_[local_rank];
  record = {};
  record.pid = worker.pid;
  record.stayed = true;
  record.started_at = Clock::now();
  record.folder = worker.folder;
  record.error_file = worker.error_file;
  record.stderr_log = worker.stderr_log;
  const std::vector<std::string> now = whole_environment(own_environment(command, local_rank, channel_number()));
  std::vector<std::string> changed;
  for (const std::string& entry : now)
    if (std::find(worker.environment.begin(), worker.environment.end(), entry) == worker.environment.end())
      changed.push_back(entry);
  if (!channels_.seat(local_rank, changed, Clock::now())) {  // more than the page holds
    kill_parked();
    return false;
  }
  worker.environment = now;
  worker.asked = {};
  worker.was_dying = worker.killed = worker.notice_told = false;
  fence_.add(worker.pid);
  watch(local_rank, live_.emplace(local_rank, std::move(worker)).first->second);
  parked_.erase(parked);
  asio::post(io_, hooks_.on_end);  // asio does not wake us for an end that came while nobody waited for it
  return true;
}

std::optional<int> WorkerGroup::start(const WorkerCommand& command, int local_rank, WorkerTemplate* from) {
  if (seat_parked(command, local_rank)) return 0;
  if (fence_.is_closed()) return {};
  Starting one = prepare(command, local_rank, from != nullptr);
  const auto done = [this](std::optional<Spawned> forked, const WorkerTemplate::Go& go) {
    on_forked(std::move(forked), go);
  };
  if (!from || !from->fork(one.request, done)) return started(one, spawn(one.request));
  starting_.emplace(std::move(one));
  from_ = from;
  return {};
}

void WorkerGroup::on_forked(std::optional<Spawned> forked, const WorkerTemplate::Go& go) {
  const Starting one = std::move(*std::exchange(starting_, std::nullopt));
  if (forked) fence_.add(forked->pid);  // before it goes
  if (forked && !go()) fence_.remove(std::exchange(forked, std::nullopt)->pid);
  if (!forked && fence_.is_closed()) return;
  const int error = started(one, forked ? std::move(*forked) : spawn(one.request));
  hooks_.on_started(one.local_rank, error);
}

void WorkerGroup::stop_starting() {
  if (std::exchange(starting_, std::nullopt)) from_->forget();
}

WorkerGroup::Starting WorkerGroup::prepare(const WorkerCommand& command, int local_rank, bool by_template) {
  cookie_ = command.job.cookie;
  const WorkerPlace place = place_of(local_rank);
  WorkerRecord& record = records_[local_rank];
  const bool alone = seat_.workers == 1;
  WorkerStreams::Streams streams = streams_.open(place, alone);
  record.folder = streams.folder;
  record.error_file = streams.error_file;
  record.stderr_log = streams.stderr_log;

  const int page = channels_.open(local_rank, Clock::now()), number = page >= 0 ? channel_number() : -1;
  SpawnRequest request{command.program, with_local_rank(command.argv, local_rank),
                       own_environment(command, local_rank, number)};
  if (by_template || command.in_process)  // a template's worker is sent it, one that may stay is compared with it
    request.environment = whole_environment(std::move(request.environment));
  else
    request.common_environment = &environment_of_round_;
  request.stdin_fd = place.rank == 0 ? 0 : null_input().get();
  if (streams.out) request.stdout_fd = streams.out.get();
  if (streams.err) request.stderr_fd = streams.err.get();
  request.core_dumps = command.core_dumps;
  request.cgroup_fd = command.cgroup_fd;
  if (const auto index = static_cast<std::size_t>(local_rank); index < command.bindings.size()) {
    request.cpus = command.bindings[index].cpus;
    request.memory_nodes = command.bindings[index].memory_nodes;
  }
  if (alone) request.foreground_group = terminal_group_;
  if (number >= 0) request.passed.push_back({page, number});
  if (command.snapshot_memory_fd >= 0) request.passed.push_back({command.snapshot_memory_fd, snapshot_memory_number()});
  if (command.copy_memory_fd >= 0) request.passed.push_back({command.copy_memory_fd, copy_memory_number()});
  return {local_rank, place, std::move(streams), std::move(request), command.in_process};
}

int WorkerGroup::started(const Starting& one, Spawned spawned) {
  WorkerRecord& record = records_[one.local_rank];
  record.started_at = Clock::now();
  if (spawned.error) {
    record.status = rendezvous::ExitStatus{.start_error = spawned.error};
    note_end(record);
    return spawned.error;
  }
  fence_.add(spawned.pid);
  record.pid = spawned.pid;
  record.binding_error = spawned.binding_error;
  const auto [live, fresh] =
      live_.emplace(one.local_rank, Live{spawned.pid, asio::posix::stream_descriptor(io_, spawned.fd.release()),
                                         one.may_stay ? one.request.environment : std::vector<std::string>{},
                                         record.folder, record.stderr_log, one.place});
  watch(one.local_rank, live->second);
  channels_.started(one.local_rank);
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
    worker->second.was_dying |= worker->second.asked.signal == 0;
    return hooks_.on_dying({local_rank, *status});
  }
  if (const auto signal = channels_.new_notice(local_rank, Clock::now())) hooks_.on_notice(local_rank, *signal);
  if (parking_ && channels_.is_parked(local_rank)) hooks_.on_end();
}

std::vector<std::string> WorkerGroup::own_environment(const WorkerCommand& command, int local_rank, int channel) {
  const std::string& error_file = records_.at(local_rank).error_file.native();
  Environment own = rank_variables(command.job, seat_, local_rank, error_file, command.inherited);
  own[DDPRUN_CHANNEL_VARIABLE] = channel >= 0 ? std::to_string(channel) : "";  // never that of an outer ddprun
  if (command.snapshot_memory_fd >= 0)
    own[kSnapshotMemoryVariable] = std::to_string(snapshot_memory_number()) + ":" + std::to_string(local_rank);
  else if (command.inherited.contains(kSnapshotMemoryVariable))
    own[kSnapshotMemoryVariable] = "";
  if (command.copy_memory_fd >= 0)
    own[kCopyMemoryVariable] = std::to_string(copy_memory_number());
  else if (command.inherited.contains(kCopyMemoryVariable))
    own[kCopyMemoryVariable] = "";
  if (command.in_process || command.inherited.contains(DDPRUN_IN_PROCESS_VARIABLE))
    own[DDPRUN_IN_PROCESS_VARIABLE] = command.in_process ? "1" : "";
  own[DDPRUN_PREEMPT_SIGNALS_VARIABLE] = command.job.preempt_signals;
  own[kRecordVariable] = record_path(local_rank);
  if (environment_of_round_.empty())
    environment_of_round_ =
        without(merged(command.inherited, round_variables(command.job, seat_, command.inherited)), own);
  return entries_of(own);
}

std::vector<std::string> WorkerGroup::whole_environment(std::vector<std::string> own) const {
  own.insert(own.begin(), environment_of_round_.begin(), environment_of_round_.end());
  return own;
}

std::optional<pid_t> WorkerGroup::running(int local_rank) const {
  const auto worker = records_.find(local_rank);
  if (worker == records_.end() || worker->second.pid == 0 || worker->second.status) return {};
  return worker->second.pid;
}

void WorkerGroup::watch(int local_rank, Live& worker) {
  const auto woken = [this, local_rank, pid = worker.pid](const asio::error_code& error) {
    if (error) return;
    const auto live = live_.find(local_rank);
    const bool is_there = live != live_.end() && live->second.pid == pid;
    if (is_there && !is_readable(live->second.fd)) {  // the reactor has woken us for one that was closed before
      watch(local_rank, live->second);
      if (!is_readable(live->second.fd)) return;  // else the end came while nobody waited for it
    }
    hooks_.on_end();
  };
  worker.fd.async_wait(asio::posix::stream_descriptor::wait_read, woken);
}

void WorkerGroup::ask_to_end(int signal, StopScope scope, bool delivered) {
  for (auto& [local_rank, worker] : live_)
    if (!may_stay(local_rank)) ask(local_rank, worker, signal, scope, delivered);
}

// Who uses the channel is told there what SIGINT means, and gets SIGTERM at once.
void WorkerGroup::ask(int local_rank, Live& worker, int signal, StopScope scope, bool delivered) {
  if (signal == SIGINT && !delivered && channels_.owner(local_rank) != 0) signal = SIGTERM;
  if (worker.asked.signal == signal) return;
  worker.remains.note_owner(channels_.owner(local_rank));
  const bool whole_group = !delivered && scope == StopScope::group && leads_group();
  worker.asked = {signal, {}, delivered ? terminal_group_.value_or(0) : 0};
  if (whole_group) {
    worker.asked.group = worker.pid;
    send(-worker.pid, signal);
  } else {  // a shell first: it prints a line for a child that a signal has ended
    const auto below = scope == StopScope::automatic ? below_wrapper(worker.pid) : std::vector<BelowWrapper>{};
    const bool has_it = delivered && getpgid(worker.pid) == worker.asked.group;
    if (!has_it) send(worker.pid, !below.empty() && passes_signals_on(worker.pid) ? SIGCONT : signal);
    worker.asked.inside = signal_below(below, signal, worker.asked.group);
  }
  worker.remains.ask(worker.asked);
}

void WorkerGroup::signal(int signal) {
  for (auto& [local_rank, worker] : live_) {
    send(worker.pid, signal);
    worker.remains.signal(signal);
    if (signal == SIGKILL) kill_remains(worker);
  }
}

void WorkerGroup::signal_groups(int signal) {
  for (auto& [local_rank, worker] : live_) {
    send(leads_group() ? -worker.pid : worker.pid, signal);
    worker.remains.signal(signal);
  }
}

void WorkerGroup::kill_remains(Live& worker) {
  worker.killed = true;
  if (!worker.remains.empty()) asio::post(io_, hooks_.on_end);
}

bool WorkerGroup::kill_all() {
  bool all = true;
  for (auto& [local_rank, worker] : live_) {
    if (leads_group()) kill(-worker.pid, SIGKILL);
    all &= kill(worker.pid, SIGKILL) == 0;
    worker.remains.signal(SIGKILL);
    kill_remains(worker);
  }
  return all;
}

// One poll for all: one waitid per worker at every end adds up to thousands of calls if hundreds end together.
std::vector<int> WorkerGroup::ended() {
  std::vector<pollfd> descriptors;
  for (auto& [local_rank, worker] : live_) descriptors.push_back({worker.fd.native_handle(), POLLIN, 0});
  poll(descriptors.data(), descriptors.size(), 0);
  std::vector<int> out;
  auto look = descriptors.begin();
  for (const auto& [local_rank, worker] : live_)
    if ((look++)->revents) out.push_back(local_rank);
  return out;
}

std::vector<pid_t> WorkerGroup::strays(const std::vector<pid_t>& others) const {
  std::vector<pid_t> out = children();
  std::set<pid_t> known(others.begin(), others.end());
  for (const auto& [local_rank, worker] : live_) {
    known.insert(worker.pid);
    for (const pid_t pid : worker.remains.pids()) known.insert(pid);
  }
  for (const auto& [local_rank, worker] : parked_) known.insert(worker.pid);
  std::erase_if(out, [&](pid_t pid) { return known.contains(pid); });
  return out;
}

// By its session, or by what it has inherited.
WorkerGroup::Live* WorkerGroup::left_by(pid_t stray, const TaskStat& stat) {
  for (auto& [local_rank, worker] : live_)
    if (leads_group() && stat.session == worker.pid) return &worker;
  const auto rank = rank_by_environment(stray, cookie_);
  const auto found = rank ? live_.find(*rank - seat_.first_rank) : live_.end();
  return found == live_.end() ? nullptr : &found->second;
}

void WorkerGroup::find_remains(const std::vector<int>& stopped, const std::vector<pid_t>& others) {
  for (bool again = true; again;) {
    again = false;
    for (const pid_t stray : strays(others)) {
      const auto stat = task_stat(stray);
      Live* const worker = stat ? left_by(stray, *stat) : nullptr;
      if (worker) {
        worker->remains.take(stray);
        fence_.add(stray);
      } else if (!stat || stat->is_dead()) {
        again |= waitpid(stray, nullptr, WNOHANG) == stray;  // of whom it was cannot be told; its children are ours now
      }
    }
    for (const int local_rank : stopped) {
      Live& worker = live_.at(local_rank);
      worker.remains.note_owner(channels_.owner(local_rank));
      again |= worker.remains.reap([this](pid_t pid) { fence_.remove(pid); });
    }
  }
}

// A worker that was dying before it was asked has ended by itself.
bool WorkerGroup::was_stopped(Live& worker, const StopPolicy& policy) {
  if (worker.killed) return false;
  if (worker.asked.signal != 0 && !worker.was_dying) return true;
  const auto status = end_of(worker.child());
  if (!status) return false;
  if (status->signal == SIGINT && !leads_group()) {  // from the terminal, as the keeper will say
    worker.asked = {SIGINT, {}, *terminal_group_};
    return true;
  }
  const auto& notices = policy.notice_signals;
  return std::find(notices.begin(), notices.end(), status->signal) != notices.end();
}

bool WorkerGroup::awaits_remains(int local_rank, Live& worker) {
  if (worker.remains.empty()) return false;
  if (worker.asked.signal != 0)
    worker.remains.ask(worker.asked);
  else if (!std::exchange(worker.notice_told, true))
    asio::post(io_, [this, local_rank] { tell_of_notice(local_rank); });
  return true;
}

// A signal that may announce a preemption has ended it, as it does with a shell whose program handles it.
void WorkerGroup::tell_of_notice(int local_rank) {
  const auto worker = live_.find(local_rank);
  if (worker == live_.end() || worker->second.asked.signal != 0) return;
  const auto status = end_of(worker->second.child());
  if (!status) return;
  if (worker->second.remains.holds(channels_.owner(local_rank)))
    hooks_.on_notice(local_rank, status->signal);
  else
    hooks_.on_dying({local_rank, *status});
}

std::vector<WorkerEnd> WorkerGroup::collect(const StopPolicy& policy, const std::vector<pid_t>& others) {
  std::vector<WorkerEnd> ends;
  const std::vector<int> over = ended();
  std::vector<int> stopped;
  for (const int local_rank : over)
    if (was_stopped(live_.at(local_rank), policy)) stopped.push_back(local_rank);
  if (!stopped.empty()) find_remains(stopped, others);
  for (const int local_rank : over) {
    Live& worker = live_.at(local_rank);
    if (!worker.killed && awaits_remains(local_rank, worker)) continue;
    fence_.remove(worker.pid);
    auto status = reap(worker.child(), leads_group() ? worker.pid : 0);
    if (!status) continue;
    if (worker.remains.outcome()) status = worker.remains.outcome();
    for (const pid_t pid : worker.remains.pids()) fence_.remove(pid);
    WorkerRecord& record = records_[local_rank];
    record.status = status;
    note_end(record);
    channels_.ended(local_rank);
    ends.push_back({local_rank, *status});
    live_.erase(local_rank);
  }
  park(ends);
  reap_parked();
  std::stable_sort(ends.begin(), ends.end(), [&](const WorkerEnd& a, const WorkerEnd& b) {
    return urgency(a.status, policy.preempt_exit_code) < urgency(b.status, policy.preempt_exit_code);
  });
  return ends;
}

// They have stopped, as by SIGTERM, but for their processes.
void WorkerGroup::park(std::vector<WorkerEnd>& ends) {
  for (auto worker = live_.begin(); worker != live_.end();) {
    if (!may_stay(worker->first) || !channels_.is_parked(worker->first)) {
      ++worker;
      continue;
    }
    WorkerRecord& record = records_[worker->first];
    record.status = rendezvous::ExitStatus{.signal = SIGTERM};
    note_end(record);
    ends.push_back({worker->first, *record.status});
    worker->second.fd.cancel();
    fence_.remove(worker->second.pid);
    parked_.emplace(worker->first, std::move(worker->second));
    worker = live_.erase(worker);
  }
}

void WorkerGroup::reap_strays(std::vector<pid_t> spared) {
  for (const auto& [local_rank, worker] : live_) {
    spared.push_back(worker.pid);
    for (const pid_t pid : worker.remains.pids()) spared.push_back(pid);
  }
  for (const pid_t pid : parked()) spared.push_back(pid);
  reap_orphans(spared);
}

bool WorkerGroup::all_finished(TimePoint now) {
  return channels_.all_finishing(now) && std::all_of(records_.begin(), records_.end(), [](const auto& entry) {
           return entry.second.status && entry.second.status->ok();
         });
}

}  // namespace ddprun::agent
