#include "agent/agent.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <set>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

#include "agent/diagnosis/last_words.h"
#include "agent/process/job_cookie.h"
#include "agent/process/keeper_watch.h"
#include "agent/process/leftovers.h"
#include "agent/process/process_state.h"
#include "agent/waiting_words.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/coordination/coordinator_server.h"
#include "rendezvous/coordination/first_place.h"
#include "rendezvous/peer/loopback.h"

namespace ddprun {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kEndLimit{10'000};     // the kernel may hold a dying process for seconds
constexpr milliseconds kDrainLimit{2'000};    // a console that takes nothing for so long is stuck
constexpr milliseconds kLastWords{200};       // for what a worker that died wrote last to come through its pipe
constexpr milliseconds kWordsLimit{3'000};    // for the words of a failure to come from the coordinator, our own too
constexpr milliseconds kGoodbyeLimit{5'000};  // beyond the others' grace
constexpr milliseconds kLook{20};
constexpr std::chrono::seconds kNewJobLimit{5};  // for the others to be started again, where the job cannot go on
constexpr int kKeeperDied = 70;
ServerLimits store_limits(const AgentOptions& options) {
  ServerLimits limits;
  if (options.store_bytes_max) limits.memory_bytes_max = options.store_bytes_max;
  return limits;
}

constexpr const char* kLoopback = "127.0.0.1";

// The worker that is alone on a terminal stays in its foreground: it joins the keeper's process group.
std::optional<pid_t> terminal_group(const AgentOptions& options) {
  if (options.workers != 1 || !isatty(STDIN_FILENO)) return {};
  return getpgid(getppid());
}

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

bool is_ignored(int signal) {
  struct sigaction now {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

std::set<int> signals_of(const AgentOptions& options) {
  std::set<int> signals(options.ending_signals.begin(), options.ending_signals.end());
  signals.insert({SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD, SIGWINCH});
  if (is_ignored(SIGHUP)) signals.erase(SIGHUP);  // under nohup it stays ignored
  return signals;
}

bool is_tick(const Event& event) { return std::holds_alternative<Tick>(event); }
bool is_tick(const Action&) { return false; }

ReporterOptions reporter_options(const AgentOptions& options) {
  return {options.command.name, options.command.program, options.logs.host, options.own_error_file,
          options.command.core_dumps};
}

EventJob event_job(const AgentOptions& options) {
  return {options.command.job.run_id, options.role, options.logs.host, options.rdzv_backend,
          std::filesystem::path(options.command.program).filename().string()};
}

}  // namespace

Agent::Agent(AgentOptions options, const RoundPolicy& policy)
    : options_(std::move(options)),
      policy_(policy),
      supervisor_(options_.stop),
      signals_(io_, signals_of(options_)),
      timer_(io_),
      run_limit_(io_),
      words_due_(io_),
      sweep_timer_(io_),
      stuck_timer_(io_),
      store_lost_(io_),
      keeper_(io_, options_.keeper_pidfd),
      layout_(options_.logs, options_.command.job.run_id),
      workers_(
          io_, {options_.logs, layout_, pipes_}, terminal_group(options_), [this] { collect_workers(); },
          [this](const WorkerEnd& end) {
            dispatch(WorkerDying{seat_->round, end.local_rank, end.status});
          }),
      reporter_(pipes_, layout_, workers_, reporter_options(options_)),
      wait_(io_, pipes_),
      log_(options_.log_level, [this](const std::string& line) { pipes_.print(line); }),
      event_log_(options_.event_log, [this](const std::string& line) { pipes_.print(line); }),
      job_events_(event_log_, workers_, event_job(options_)),
      coordination_(coordination()) {
  std::signal(SIGPIPE, SIG_IGN);
}

std::unique_ptr<Coordination> Agent::coordination() {
  Coordination::Hooks hooks{[this] { on_connected(); },
                            [this](const ToAgent& message) { on_message(message); },
                            [this] { dispatch(Isolated{}); },
                            [this](const std::string& why, bool certain) { on_disconnected(why, certain); },
                            [this](const std::string& why, bool certain) {
                              if (certain) return begin_anew(why);
                              dispatch(JobEnded{{Verdict::out_of_reach, 0, why, {}}});
                            },
                            [this](const std::string& line) { pipes_.print("ddprun: " + line + "\n"); }};
  if (!options_.meeting) return coordinate_here(io_, policy_, std::move(hooks));
  return meet(io_, policy_, *options_.meeting, std::move(hooks));
}

JobResult Agent::run() {
  if (options_.named) end_leftovers_of_earlier_runs();
  if (log_.at(LogLevel::info) || isatty(STDERR_FILENO)) reporter_.logs_are_in(layout_.unnamed_folder());
  reporter_.not_bound(options_.command.bindings);
  if (!children_can_be_found()) reporter_.no_proc();
  if (options_.cgroup) make_cgroup();
  signals_.on_signal([this](int signal) { on_signal(signal); });
  watch_keeper();
  limit_run();
  if (options_.meeting) wait_.tell_trouble("waiting for the coordinator at " + options_.meeting->places.front().host);
  coordination_->start();
  io_.run();
  wait_for_others();
  return result_;
}

// Until all know of the end. Where the coordinator runs here, the others are told by it, and of why.
void Agent::wait_for_others() {
  hurried_ = false;
  const TimePoint until = Clock::now() + options_.stop.stop_grace + kGoodbyeLimit;
  while (!hurried_ && Clock::now() < until && !coordination_->may_leave()) {
    io_.restart();
    io_.run_one_for(kLook);
  }
  coordination_->leave();
  while (!hurried_ && Clock::now() < until && !coordination_->all_left(kLook)) {
    io_.restart();
    io_.poll();  // signals
  }
}

void Agent::end_leftovers_of_earlier_runs() {
  if (const int ended = end_leftovers(own_cookie(options_.command.job.run_id)))
    reporter_.ended_leftovers(ended, options_.command.job.run_id);
}

void Agent::make_cgroup() {
  std::optional<Cgroup> made = Cgroup::create();
  if (!made) return reporter_.no_cgroup();
  cgroup_.emplace(std::move(*made));
  options_.command.cgroup_fd = cgroup_->fd();
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return collect_workers();
  if (signal == SIGTSTP) return workers_.signal_groups(SIGSTOP);
  if (signal == SIGCONT) return workers_.signal_groups(SIGCONT);
  if (signal == SIGWINCH) return resize_terminals();
  if (!contains(options_.ending_signals, signal)) return workers_.signal(signal);
  hurried_ = true;
  if (!contains(options_.preempt_signals, signal)) return dispatch(Signalled{signal});
  reporter_.preempted(signal);
  dispatch(Signalled{SIGTERM});
}

void Agent::resize_terminals() {
  pipes_.resize();
  workers_.signal(SIGWINCH);  // their terminals are in no session, and cannot send it
}

void Agent::limit_run() {
  if (!options_.max_run) return;
  run_limit_.expires_after(*options_.max_run);
  run_limit_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    reporter_.run_is_over(*options_.max_run);
    dispatch(Signalled{SIGTERM});
  });
}

void Agent::watch_keeper() {
  keeper_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    main_has_noticed_keepers_death();
    end_all_children(kEndLimit);
    file_timer_.reset();
    layout_.clean_up(false);
    _exit(kKeeperDied);
  });
}

void Agent::collect_workers() {
  for (const WorkerEnd& end : workers_.collect()) {
    job_events_.worker_ended(end.local_rank);
    // A worker in the terminal's foreground gets Ctrl-C itself, and may be gone before the keeper has told us.
    if (end.status.signal == SIGINT && terminal_group(options_)) dispatch(Signalled{SIGINT});
    dispatch(WorkerExited{seat_->round, end.local_rank, end.status});
  }
  workers_.reap_strays();
}

void Agent::arm_timer() {
  const auto deadline = supervisor_.next_deadline();
  if (!deadline) return void(timer_.cancel());
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) dispatch(Tick{});
  });
}

// What had been said before may not have arrived.
void Agent::on_connected() {
  wait_.over();
  alone_since_ = TimePoint::max();
  job_is_over_.clear();
  if (const auto round = supervisor_.round_with_workers())
    coordination_->send(NodeBack{coordination_->node(), *round, offer()});
  else
    say_ready();
  tell_of_signal();
}

// Again and again, as long as it lasts.
void Agent::on_disconnected(const std::string& why, bool certain) {
  const TimePoint now = Clock::now();
  if (alone_since_ == TimePoint::max()) alone_since_ = now;
  log_.write(LogLevel::info, "the coordinator is out of reach: " + why);
  if (supervisor_.round_with_workers() && !supervisor_.held_by_kernel()) return;
  if (signal_ != 0) return dispatch(JobEnded{{Verdict::interrupted, signal_, "interrupted", {}}});
  if (!job_is_over_.empty() && now - alone_since_ >= kNewJobLimit)
    return dispatch(JobEnded{{Verdict::out_of_reach, 0, job_is_over_, {}}});
  const Duration patience = seat_ ? Duration(kLooksForJob) : options_.join_timeout;
  if (now - alone_since_ < patience) {
    wait_.tell_trouble("waiting for the coordinator: " + why, certain);
    return warn_where_alone();
  }
  const Verdict verdict = seat_ ? Verdict::out_of_reach : Verdict::too_few_nodes;
  dispatch(JobEnded{{verdict, 0, "the coordinator could not be reached (" + why + ")", {}}});
}

// As if it had been started again, and not for long: whatever starts the others again may start this one, too.
void Agent::begin_anew(const std::string& why) {
  job_is_over_ = why;
  alone_since_ = Clock::now();
  pipes_.print("ddprun: " + why + "; this node ends its workers, and looks for " +
               std::to_string(kNewJobLimit.count()) + " s whether the job begins anew.\n");
  gives_up_ = true;
  dispatch(Isolated{});
  if (!supervisor_.round_with_workers()) meet_anew();
}

// Only now: where nobody listens any more the others take its workers for dead.
void Agent::meet_anew() {
  if (!std::exchange(gives_up_, false)) return;
  asio::post(io_, [this] {
    alone_since_ = Clock::now();
    options_.meeting->instead_of = coordination_->node();
    coordination_->leave();
    coordination_.reset();
    coordination_ = coordination();
    coordination_->start();
  });
}

void Agent::tell_of_signal() {
  if (signal_ == SIGINT) coordination_->send(JobInterrupted{coordination_->node(), signal_});
  if (signal_ != 0 && signal_ != SIGINT) coordination_->send(NodeLeaves{coordination_->node(), signal_});
}

void Agent::on_message(const ToAgent& message) {
  std::visit(overloaded{
                 [](const Welcome&) {},
                 [](const Elsewhere&) {},
                 [](const KeepRecord&) {},
                 [](const AllTold&) {},
                 [](const Vote&) {},
                 [&](const HeartbeatAnswer& m) {
                   const bool waits = m.attendance && !supervisor_.round_with_workers();
                   if (!seat_ || waits) tell_of_wait(m.attendance);
                 },
                 [&](const FailureWords& m) {
                   failure_words_ = m.text;
                   words_due_.cancel();
                 },
                 [&](const TakeSeat& m) { take_seat(m.seat); },
                 [&](const StartRound& m) { dispatch(RoundStarted{m.round}); },
                 [&](const EndRound& m) {
                   if (last_failure_ && last_failure_->round == m.round)
                     reporter_.restarting(*last_failure_, m.reason);
                   else
                     reporter_.regrouping(m);
                   dispatch(RoundEnded{m.round, m.planned});
                 },
                 [&](const EndJob& m) { on_job_end(m.outcome); },
             },
             message);
}

void Agent::tell_of_wait(const std::optional<Attendance>& attendance) {
  wait_.tell(waiting_words(attendance, options_.workers));
  if (attendance && attendance->nodes == 1) warn_where_alone();
}

void Agent::warn_where_alone() {
  const std::string& host = options_.meeting->places.front().host;
  if (wait_.so_far() < kPatience || !is_loopback(host) || std::exchange(warned_where_alone_, true)) return;
  reporter_.only_here(host, options_.rdzv_backend == "static" ? "--master-addr" : "--rdzv-endpoint");
}

void Agent::take_seat(const Seat& seat) {
  wait_.over();
  seat_ = seat;
  job_events_.round_formed(seat);
  if (options_.store_proxy) bring_store_near();
  dispatch(RoundFormed{seat});
}

// Before the round is confirmed, so that workers never wait for it. A lost store ends all its clients; what becomes of
// the round then is the coordinator's to say.
void Agent::bring_store_near() {
  dialer_.reset();
  proxy_.reset();
  if (seat_->group_rank == 0) return coordination_->offer_store(seat_->round, store_->gateway());
  const auto print = [this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); };
  const auto lost = [this, round = seat_->round](const std::string& why) {
    asio::post(io_, [this, round, why] { tell_of_lost_store(round, why); });
  };
  proxy_ = std::make_unique<StoreProxy>(StoreProxy::Options{
      .limits = store_limits(options_), .own_user_only = !options_.store_for_any_user, .on_lost = lost, .say = print});
  dialer_ = coordination_->dial_store(*seat_, proxy_->upstream());
}

// At a round's end the store goes before we are told of it, and a lost node is the coordinator's to tell of: that is
// worth a line to those alone whom nobody has told anything by then.
void Agent::tell_of_lost_store(int round, const std::string& why) {
  store_lost_.expires_after(kLease);
  store_lost_.async_wait([this, round, why](const asio::error_code& error) {
    if (!error && supervisor_.running_round() == round)
      pipes_.print("ddprun: the round's store is out of reach: " + why + ".\n");
  });
}

void Agent::close_store() {
  reach_.reset();
  dialer_.reset();
  proxy_.reset();
  store_.reset();
}

Seat Agent::as_workers_see(const Seat& seat) {
  if (!options_.meeting) return seat;
  options_.command.inherited["DDPRUN_MASTER_ADDR"] = seat.master_host;
  options_.command.inherited["DDPRUN_MASTER_PORT"] = std::to_string(seat.master_port);
  Seat near = seat;
  if (!options_.store_proxy) return near;
  near.master_host = kLoopback;
  near.master_port = proxy_ ? proxy_->port() : store_->port();
  return near;
}

// The other nodes shall not wait for our workers to leave in order to know why theirs have to.
void Agent::on_job_end(const Outcome& outcome) {
  if (options_.meeting && outcome.cause && outcome.cause->node == coordination_->node()) {
    words_due_.expires_after(kLastWords);
    words_due_.async_wait([this, outcome](const asio::error_code& error) {
      if (!error) send_words(outcome);
    });
  }
  dispatch(JobEnded{outcome});
}

void Agent::send_words(const Outcome& outcome) {
  if (!std::exchange(words_sent_, true)) coordination_->send(FailureWords{reporter_.words_of(outcome)});
}

// A fresh store for every round: the wire carries no round number, so the port is the fence between two of them.
void Agent::say_ready() {
  close_store();
  file_timer_.reset();
  job_events_.waiting_for_round();
  Server::Options store{.address = options_.store_address,
                        .port = options_.master_port,
                        .ports = options_.store_ports,
                        .port_before = last_store_port_,
                        .limits = store_limits(options_),
                        .own_user_only = !options_.store_for_any_user,
                        .say = [this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); }};
  if (options_.store_proxy) store.address = kLoopback;
  store_ = std::make_unique<Server>(store);
  last_store_port_ = store_->port();
  check_reach();
  coordination_->send(NodeReady{coordination_->node(), offer()});
}

// Of several nodes the others' way to the store is none of ours.
void Agent::check_reach() {
  if (options_.meeting || is_loopback(options_.master_host)) return;
  const ControlAddress store{options_.master_host, store_->port()};
  reach_ = std::make_unique<StoreReach>(io_, std::make_shared<Resolver>(io_), store, [this, store](const auto& why) {
    reporter_.store_out_of_reach(store.host, store.port, why);
  });
}

NodeOffer Agent::offer() const {
  return {options_.workers,
          options_.master_host,
          store_ ? store_->port() : std::uint16_t{0},
          options_.role,
          options_.wished_rank,
          options_.logs.host,
          {},
          seat_ ? seat_->round : 0};
}

// Events that come up while an action is carried out wait for their turn.
void Agent::dispatch(const Event& event) {
  events_.push_back(event);
  if (std::exchange(handling_, true)) return;
  for (; !events_.empty(); events_.pop_front()) {
    log("event ", events_.front());
    for (const Action& action : supervisor_.on(events_.front(), Clock::now())) execute(action);
  }
  handling_ = false;
  arm_timer();
}

void Agent::execute(const Action& action) {
  log("action", action);
  std::visit(overloaded{
                 [&](const ConfirmRound& a) {
                   coordination_->send(NodeConfirmed{coordination_->node(), a.round});
                 },
                 [&](const StartWorkers& a) { start_workers(a.seat); },
                 [&](const AskToSave&) { workers_.channels().ask_to_save(Clock::now()); },
                 [&](const AskToLeave&) { workers_.channels().ask_to_leave(); },
                 [&](const AnnounceWait& a) { reporter_.waiting(a.local_ranks, a.left); },
                 [&](const SignalWorkers& a) { signal_workers(a.signal); },
                 [&](const AnnounceHeld& a) { reporter_.held(a.local_ranks); },
                 [&](const SweepLeftovers& a) { begin_sweep(a.round); },
                 [&](const EndSweep& a) {
                   sweeping_ = 0;
                   reporter_.still_there(sweep_.left(), a.round);
                 },
                 [&](const ReportRunning& a) {
                   coordination_->send(NodeRunning{coordination_->node(), a.round});
                 },
                 [&](const ReportDone& a) {
                   coordination_->send(NodeDone{coordination_->node(), a.round});
                 },
                 [&](const ReportFailure& a) { report_failure(a); },
                 [&](const ReportInterrupted& a) {
                   signal_ = a.signal;
                   if (seat_) reporter_.stopping(a.signal, options_.stop.stop_grace);
                   tell_of_signal();
                   if (!coordination_->connected()) on_disconnected("somebody wants us to end", false);
                 },
                 [&](const Rejoin&) {
                   if (coordination_->connected()) return say_ready();
                   meet_anew();
                 },
                 [&](const Finish& a) { finish(a.outcome); },
             },
             action);
}

void Agent::start_workers(const Seat& seat) {
  workers_.begin(as_workers_see(seat));
  reporter_.round_begins();
  offer_timers();
  for (int local_rank = 0; local_rank < seat.workers; ++local_rank) {
    if (const int error = workers_.start(options_.command, local_rank)) {
      job_events_.worker_ended(local_rank);
      dispatch(WorkerExited{seat.round, local_rank, {.start_error = error}});
      return;
    }
    job_events_.worker_started(local_rank);
    dispatch(WorkerStarted{seat.round, local_rank});
  }
  reporter_.workers_run();
  if (options_.stuck_limit) watch_for_stuck_workers(StuckWatch(*options_.stuck_limit), seat.round);
}

void Agent::watch_for_stuck_workers(StuckWatch watch, int round) {
  stuck_timer_.expires_after(watch.pause());
  stuck_timer_.async_wait([this, watch, round](const asio::error_code& error) mutable {
    if (error || supervisor_.round_with_workers() != round) return;
    std::set<int> asleep;
    for (const auto& [local_rank, worker] : workers_.records())
      if (worker.pid && !worker.status && process_state(worker.pid).letter == 'D') asleep.insert(local_rank);
    if (const auto stuck = watch.look(asleep, Clock::now()))
      return dispatch(WorkerDying{round, *stuck, {.stuck = true}});
    watch_for_stuck_workers(std::move(watch), round);
  });
}

std::vector<pid_t> Agent::living_workers() const {
  std::vector<pid_t> pids;
  for (const auto& [local_rank, worker] : workers_.records())
    if (worker.pid && !worker.status) pids.push_back(worker.pid);
  return pids;
}

// A fresh pipe for every round, as the store: what an old round's processes still write reaches nobody.
void Agent::offer_timers() {
  if (!options_.timer_file) return;
  file_timer_.reset();
  file_timer_ = std::make_unique<FileTimer>(
      io_, *options_.timer_file,
      FileTimer::Surroundings{[this] { return living_workers(); },
                              [this](const TimerExpiry& expiry) { on_timer_expiry(expiry); },
                              [this](const std::string& words) { pipes_.print("ddprun: " + words + ".\n"); }});
  options_.command.inherited["TORCHELASTIC_TIMER_FILE"] = file_timer_->path();
}

// Whatever the signal does to the worker: its timer ran out, so it has failed.
void Agent::on_timer_expiry(const TimerExpiry& expiry) {
  for (const auto& [local_rank, worker] : workers_.records()) {
    if (worker.pid != expiry.worker) continue;
    reporter_.timer_expired(local_rank, expiry.timer);
    job_events_.timer_expired(local_rank, expiry.timer);
    return dispatch(WorkerDying{seat_->round, local_rank, {.signal = expiry.timer.signal}});
  }
}

void Agent::report_failure(const ReportFailure& report) {
  const int rank = seat_->first_rank + report.local_rank;
  last_failure_ =
      Failure{report.round, coordination_->node(), report.local_rank, rank, report.status, options_.logs.host};
  reporter_.noticed(*last_failure_);
  job_events_.failed(report.local_rank);
  const std::optional<bool> progressed = workers_.channels().progressed(Clock::now());
  if (!progressed && report.status.code) {  // our own workers have been signalled, and heartbeats can wait so long
    pipes_.await_end(report.round, rank, kLastWords);
    last_failure_->last_line = last_line_to_compare(pipes_.last_lines(report.round, rank));
  }
  coordination_->send(WorkerFailed{*last_failure_, progressed});
}

// SIGKILL needs no scope: what is left of a worker's group goes when the worker is reaped.
void Agent::signal_workers(int signal) {
  job_events_.workers_signalled();
  if (options_.stop_scope == StopScope::group)
    workers_.signal_groups(signal);
  else
    workers_.signal(signal);
}

void Agent::begin_sweep(int round) {
  if (cgroup_) cgroup_->kill();  // all at one moment; then they are ours to reap
  sweep_ = ChildSweep();
  sweeping_ = round;
  sweep(round);
}

// Between two looks the loop goes on: heartbeats and signals shall not wait for what the kernel holds.
void Agent::sweep(int round) {
  if (sweeping_ != round) return;  // the next look would meet the next round's workers
  if (sweep_.step()) return dispatch(Swept{round});
  sweep_timer_.expires_after(sweep_.pause());
  sweep_timer_.async_wait([this, round](const asio::error_code& error) {
    if (!error) sweep(round);
  });
}

void Agent::finish(const Outcome& outcome) {
  result_ = {outcome, workers_.channels().all_saved(Clock::now()), workers_finished()};
  wait_.over();
  close_store();
  file_timer_.reset();
  job_events_.finished(outcome);
  pipes_.drain(kDrainLimit);
  tell_why(outcome);
}

bool Agent::workers_finished() {
  const auto& records = workers_.records();
  return workers_.channels().all_finishing(Clock::now()) &&
         std::all_of(records.begin(), records.end(),
                     [](const auto& entry) { return entry.second.status && entry.second.status->ok(); });
}

// All nodes print the same: the words of the one whose worker failed.
void Agent::tell_why(const Outcome& outcome) {
  if (!outcome.cause) {
    const bool worth_words = outcome.verdict != Verdict::success || outcome.late;
    if (options_.meeting && worth_words && signal_ == 0) reporter_.ended(outcome);
    return end(outcome);
  }
  const bool here = outcome.cause->node == coordination_->node();
  if (here) result_.report = reporter_.failed(outcome);
  if (!options_.meeting) return end(outcome);
  if (here) send_words(outcome);
  words_due_.expires_after(failure_words_ ? milliseconds(0) : kWordsLimit);
  words_due_.async_wait([this, outcome, here](const asio::error_code&) {
    if (!here) result_.report = reporter_.failed_elsewhere(outcome, failure_words_);
    end(outcome);
  });
}

void Agent::end(const Outcome& outcome) {
  pipes_.show_tracebacks("");  // of a job that ended without a report
  reporter_.error_files_are_in(layout_.clean_up(outcome.verdict == Verdict::success));
  pipes_.drain(kDrainLimit);
  io_.stop();
}

template <class What>
void Agent::log(const char* kind, const What& what) {
  const LogLevel level = is_tick(what) ? LogLevel::debug : LogLevel::info;
  if (log_.at(level)) log_.write(level, kind + (" " + to_string(what)));
}

}  // namespace ddprun
