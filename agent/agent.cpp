#include "agent/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include <sys/prctl.h>
#include <unistd.h>

#include "agent/channel/channel_user.h"
#include "agent/process/job_cookie.h"
#include "agent/process/leftovers.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kParkLimit{3'000};
constexpr milliseconds kDrainLimit{2'000};  // a console that accepts nothing for this long is stuck

// A single worker on a terminal stays in its foreground: it joins the keeper's process group.
std::optional<pid_t> terminal_group(const AgentOptions& options) {
  if (options.workers != 1 || !isatty(STDIN_FILENO)) return {};
  return getpgid(getppid());
}

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

bool is_tick(const Event& event) { return std::holds_alternative<Tick>(event); }
bool is_tick(const Action&) { return false; }

}  // namespace

Agent::Agent(AgentOptions options, const rendezvous::RoundPolicy& policy)
    : options_(std::move(options)),
      in_foreground_(terminal_group(options_).has_value()),
      supervisor_(options_.stop),
      signals_(io_, signals_of(options_)),
      timer_(io_),
      run_limit_(io_),
      machine_(io_, machine_options(), machine_hooks()),
      keeper_(io_, options_.keeper_pidfd),
      layout_(options_.logs, options_.command.job.run_id),
      faults_(io_, options_.allow_chaos, fault_hooks()),
      workers_(
          io_, {options_.logs, layout_, pipes_}, terminal_group(options_), [this] { collect_workers(); },
          [this](const WorkerEnd& end) {
            dispatch(WorkerDying{seat_->round, end.local_rank, end.status});
          },
          [this](int local_rank, int signal) { on_notice(local_rank, signal); }),
      reporter_(pipes_, layout_, workers_, reporter_options(options_)),
      log_(options_.log_level, [this](const std::string& line) { pipes_.print(line); }),
      event_log_(options_.event_log, [this](const std::string& line) { pipes_.print(line); }),
      job_events_(event_log_, workers_, event_job(options_), options_.stop.preempt_exit_code),
      sweep_(io_, [this](int round) { dispatch(Swept{round}); }),
      timers_(io_, workers_, timer_hooks()),
      store_(io_, options_, store_hooks()),
      contact_(io_, policy, {options_, supervisor_, pipes_, reporter_, log_},
               {[this] { report_state(); }, [this](const rendezvous::ToAgent& message) { on_message(message); },
                [this](const Event& event) { dispatch(event); },
                [this](const std::string& line, const AgentSocket::Reply& reply) { desk_.on_request({line}, reply); },
                ledger_hook(), caller_hook()}),
      memory_(io_, options_.memory_snapshots, memory_hooks()),
      ending_(
          io_, reporter_, [this]() -> Coordination& { return contact_.coordination(); }, !options_.meeting),
      output_(io_, options_.logs.monitor, output_hooks()),
      watch_(io_, options_.hang_limits, workers_seen(), watch_hooks()),
      pace_(io_, options_.watch_stragglers, workers_seen(), pace_hooks()),
      account_(io_, account_hooks()),
      view_(options_.logs.host, view_hooks()),
      desk_(io_, desk_options(options_), desk_hooks()) {
  std::signal(SIGPIPE, SIG_IGN);
}

Faults::Hooks Agent::fault_hooks() {
  return {[this](const std::string& line) { pipes_.print(line); },
          [this](int local_rank) { return workers_.running(local_rank); }, [this] { return watch_.suspended(); },
          [this](Duration time) { contact_.coordination().cut(time); },
          [this] {
            if (contact_.signal() != 0) return false;
            dispatch(Signalled{SIGTERM});
            return true;
          }};
}

RoundAccount::Hooks Agent::account_hooks() {
  RoundAccount::Hooks hooks{[this] { return static_cast<int>(workers_.records().size()); },
                            [this](int local_rank) { return workers_.channels().progress(local_rank, Clock::now()); },
                            [this] { return watch_.median_step(); },
                            [this](int round, const rendezvous::RoundSpent& spent) {
                              return contact_.coordination().send(rendezvous::NodeSpent{node(), round, spent});
                            },
                            {}};
  if (job_events_.on()) hooks.on_progress = [this](const JobProgress& progress) { job_events_.progressed(progress); };
  return hooks;
}

void Agent::close_account() {
  faults_.end();
  if (const auto spent = account_.close()) desk_.time_spent(*spent);
}

void Agent::inject(const rendezvous::InjectFault& message) {
  const bool runs = seat_ && supervisor_.running_round() == message.round;
  faults_.inject(message.fault, runs ? std::optional(seat_->first_rank) : std::nullopt);
}

std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> Agent::ledger_hook() {
  if (options_.state.ledger.empty() && options_.state.excluded.empty()) return {};
  state_.emplace(options_.state, [this](const std::string& line) { pipes_.print("ddprun: " + line + "\n"); });
  return [this](const auto& record, const auto* outcome) { state_->save(record, outcome); };
}

RoundTimers::Hooks Agent::timer_hooks() {
  return {[this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); },
          [this](int local_rank, const ExpiredTimer& timer) { on_timer_expiry(local_rank, timer); },
          [this](int round, int local_rank) {
            dispatch(WorkerDying{round, local_rank, {.stuck = true}});
          },
          [this](int round) { return supervisor_.round_with_workers() == round; }};
}

RoundStore::Hooks Agent::store_hooks() {
  return {[this](const std::string& line) { pipes_.print("ddprun: " + line + ".\n"); },
          [this](const rendezvous::ControlAddress& store, const std::string& why) {
            reporter_.store_out_of_reach(store.host, store.port, why);
          },
          [this](int round, const std::string& why) {
            if (supervisor_.running_round() == round)
              pipes_.print("ddprun: the round's store is unreachable: " + why + ".\n");
          }};
}

JobResult Agent::run() {
  if (options_.named) end_leftovers_of_earlier_runs();
  if (log_.at(LogLevel::info) || isatty(STDERR_FILENO)) reporter_.logs_are_in(layout_.unnamed_folder());
  reporter_.not_bound(options_.command.bindings);
  if (!children_can_be_found()) reporter_.no_proc();
  if (options_.cgroup) make_cgroup();
  memory_.make(options_.workers);
  pass_memory();
  signals_.on_signal([this](int signal) { on_signal(signal); });
  keeper_.on_death([this] {
    timers_.close();
    layout_.clean_up(false);
  });
  limit_run();
  start_template();
  machine_.start();
  watch_.start(merged(options_.command.inherited, {}));
  desk_.open_socket();
  announce_metrics();
  desk_.start_pushes();
  contact_.start();
  desk_.start_page();
  io_.run();
  end_requested_ = false;
  contact_.leave(end_requested_);
  return result_;
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

void Agent::pass_memory() {
  options_.command.snapshot_memory_fd = memory_.snapshots_fd();
  options_.command.copy_memory_fd = memory_.copies_fd();
}

std::function<void(rendezvous::ReleasedPeer)> Agent::caller_hook() {
  if (options_.memory_snapshots == 0) return {};
  return [this](rendezvous::ReleasedPeer peer) { memory_.add_caller(std::move(peer)); };
}

NodeMemory::Hooks Agent::memory_hooks() {
  return {[this](const rendezvous::ControlAddress& agent, NodeCopies::LinkHooks hooks) {
            return contact_.coordination().dial_copies(agent, std::move(hooks));
          },
          [this](int round) {
            contact_.send(rendezvous::NodeConfirmed{node(), round});
          },
          [this](const std::string& line) { pipes_.print(line); },
          [this](const std::string& why) { reporter_.no_snapshot_memory(why); }};
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) return collect_workers();
  if (signal == SIGTSTP || signal == SIGCONT) return watch_.suspend(signal == SIGTSTP);
  if (signal == SIGWINCH) return resize_terminals();
  if (!contains(options_.ending_signals, signal)) return workers_.signal(signal);
  end_requested_ = true;
  stop_parking();
  if (!contains(options_.preempt_signals, signal)) return dispatch(Signalled{signal});
  reporter_.preempted(signal);
  dispatch(Signalled{SIGTERM});
}

// A scheduler may signal every process of the job, and the workers before us.
void Agent::on_notice(int local_rank, int signal) {
  if (contact_.signal() != 0 || !contains(options_.stop.notice_signals, signal)) return;
  reporter_.worker_noticed(local_rank, signal);
  dispatch(Signalled{SIGTERM});
}

void Agent::resize_terminals() {
  pipes_.resize();
  workers_.signal(SIGWINCH);  // their terminals belong to no session and cannot send it
}

void Agent::collect_workers() {
  for (const WorkerEnd& end : workers_.collect(options_.stop.preempt_exit_code)) {
    job_events_.worker_ended(end.local_rank);
    output_.worker_ended(seat_->round, end.local_rank);
    // A worker in the terminal's foreground gets Ctrl-C itself, and may exit before the keeper has forwarded it.
    if (end.status.signal == SIGINT && in_foreground_ && seat_->workers == 1) dispatch(Signalled{SIGINT});
    dispatch(WorkerExited{seat_->round, end.local_rank, end.status});
  }
  std::vector<pid_t> others = machine_.children();
  if (const auto child = template_ ? template_->child() : std::nullopt) others.push_back(*child);
  workers_.reap_strays(std::move(others));
}

void Agent::arm_timer() {
  const auto deadline = supervisor_.next_deadline();
  if (!deadline) return void(timer_.cancel());
  timer_.expires_at(*deadline);
  timer_.async_wait([this](const asio::error_code& error) {
    if (!error) dispatch(Tick{});
  });
}

void Agent::report_state() {
  if (!held_ranks_.empty()) return contact_.send(rendezvous::NodeReady{node(), offer()});
  if (const auto round = supervisor_.round_with_workers())
    contact_.send(rendezvous::NodeBack{node(), *round, offer()});
  else
    send_ready();
}

void Agent::on_message(const rendezvous::ToAgent& message) {
  std::visit(overloaded{
                 [](const rendezvous::Welcome&) {},
                 [](const rendezvous::Elsewhere&) {},
                 [](const rendezvous::KeepRecord&) {},
                 [](const rendezvous::KeepRange&) {},
                 [](const rendezvous::AllNotified&) {},
                 [](const rendezvous::Vote&) {},
                 [](const rendezvous::ClientAnswer&) {},
                 [&](const rendezvous::Excluded& m) {
                   workers_.kill_parked();
                   reporter_.excluded(m);
                 },
                 [&](const rendezvous::HeartbeatAnswer& m) {
                   const bool waits = m.attendance && !supervisor_.round_with_workers();
                   if (!seat_ || waits) contact_.show_wait(m.attendance);
                 },
                 [&](const rendezvous::AskStandings& m) {
                   if (supervisor_.running_round() != m.round) return;
                   watch_.look();
                   watch_.tell_standings();
                 },
                 [&](const rendezvous::BlameWorker& m) { watch_.blame(m.round, m.rank, m.text, m.of_all); },
                 [&](const rendezvous::TakeStacks& m) { take_asked_stacks(m); },
                 [&](const rendezvous::StacksOfNode& m) { desk_.on_message(m); },
                 [&](const rendezvous::ReportStatus& m) {
                   contact_.send(rendezvous::NodeStatus{node(), m.asker, m.serial, report()});
                 },
                 [&](const rendezvous::JobStatus& m) { desk_.on_message(m); },
                 [&](const rendezvous::StatusOfNode& m) { desk_.on_message(m); },
                 [&](const rendezvous::ActDone& m) { desk_.on_message(m); },
                 [&](const rendezvous::ReportAct& m) {
                   reporter_.act_carried_out(m);
                   job_events_.act_carried_out(m);
                 },
                 [&](const rendezvous::SuspendWorkers& m) { suspend_workers(m); },
                 [&](const rendezvous::TakeSnapshot& m) { take_snapshot(m); },
                 [&](const rendezvous::InjectFault& m) { inject(m); },
                 [&](const rendezvous::ReportPace& m) { report_pace(m); },
                 [&](const rendezvous::FailureText& m) { ending_.on_report(m.text); },
                 [&](const rendezvous::TakeSeat& m) { take_seat(m.seat); },
                 [&](const rendezvous::StartRound& m) { dispatch(RoundStarted{m.round}); },
                 [&](const rendezvous::EndRound& m) {
                   const bool ours = seat_ && seat_->round == m.round;
                   end_was_planned_ = m.planned;
                   if (ours) close_account();
                   job_events_.round_ended(m, account_.spent());
                   desk_.round_ended(m, ours);
                   if (last_failure_ && last_failure_->round == m.round)
                     reporter_.restarting(*last_failure_, m.reason);
                   else
                     reporter_.regrouping(m);
                   dispatch(RoundEnded{m.round, m.planned});
                 },
                 [&](const rendezvous::EndJob& m) {
                   close_account();
                   succeeded_ = m.outcome.verdict == rendezvous::Verdict::success;
                   ending_.on_job_end(m.outcome);
                   stop_parking();
                   dispatch(JobEnded{m.outcome});
                 },
             },
             message);
}

void Agent::take_seat(const rendezvous::Seat& seat) {
  contact_.on_seat();
  if (seat.workers != options_.workers) change_workers(seat.workers);
  seat_ = seat;
  account_.begin(seat);
  job_events_.round_formed(seat);
  desk_.round_formed(seat.round);
  if (options_.store_proxy) store_.open_proxy(seat, contact_.coordination());
  memory_.take_seat(seat);
  dispatch(RoundFormed{seat});
}

// By a user (ddprun ctl add-workers). No worker runs; who waited in process has the memory of before.
void Agent::change_workers(int workers) {
  const Environment before = common_variables(options_.command.job, options_.workers, options_.command.inherited);
  options_.workers = workers;
  workers_.kill_parked();
  memory_.change_workers(workers);
  pass_memory();
  if (template_ && before != common_variables(options_.command.job, workers, options_.command.inherited)) {
    template_.reset();  // it has read its variables
    start_template();
    if (template_) template_->do_not_await();
  }
}

void Agent::send_ready() {
  awaits_health_ = contact_.signal() == 0 && !machine_.known_or_check();  // a node that leaves is in no round
  if (awaits_health_) return;
  awaits_template_ = template_ && template_->is_awaited() && contact_.signal() == 0;
  if (awaits_template_) return;
  offer_node();
}

void Agent::offer_node() {
  store_.close();
  timers_.close();
  job_events_.waiting_for_round();
  store_.open();
  account_.tell();
  desk_.waits_for_round(Clock::now());
  contact_.send(rendezvous::NodeReady{node(), offer()});
}

rendezvous::NodeOffer Agent::offer() const {
  return {options_.workers,
          options_.master_host,
          store_.port(),
          options_.role,
          options_.requested_rank,
          options_.logs.host,
          {},
          seat_ ? seat_->round : 0,
          unfit(),
          memory_.held(),
          options_.workers_most};
}

// Events that arise while an action is carried out are queued.
void Agent::dispatch(const Event& event) {
  events_.push_back(event);
  if (std::exchange(handling_, true)) return;
  for (; !events_.empty(); events_.pop_front()) {
    log("event ", events_.front());
    event_at_ = Clock::now();
    for (const Action& action : supervisor_.on(events_.front(), event_at_)) execute(action);
  }
  handling_ = false;
  arm_timer();
}

void Agent::execute(const Action& action) {
  log("action", action);
  std::visit(overloaded{
                 [&](const ConfirmRound& a) { memory_.confirm_when_ready(a.round); },
                 [&](const StartWorkers& a) { start_workers(a.seat); },
                 [&](const AskToSave&) { workers_.channels().request_save(Clock::now()); },
                 [&](const AskToLeave&) { ask_to_leave(); },
                 [&](const AnnounceWait& a) { reporter_.waiting(a.local_ranks, a.left); },
                 [&](const SignalWorkers& a) { signal_workers(a.signal); },
                 [&](const AnnounceHeld& a) { reporter_.held(a.local_ranks); },
                 [&](const ReportHeld& a) { report_held(a.local_ranks); },
                 [&](const SweepLeftovers& a) { sweep_leftovers(a.round); },
                 [&](const EndSweep& a) { reporter_.still_there(sweep_.stop(), a.round); },
                 [&](const ReportRunning& a) {
                   contact_.send(rendezvous::NodeRunning{node(), a.round});
                 },
                 [&](const ReportDone& a) {
                   close_account();
                   contact_.send(rendezvous::NodeDone{node(), a.round});
                 },
                 [&](const ReportFailure& a) { report_failure(a); },
                 [&](const ReportInterrupted& a) {
                   if (seat_) reporter_.stopping(a.signal, options_.stop.stop_grace);
                   // The coordinator has to know the node that leaves.
                   const bool health = std::exchange(awaits_health_, false),
                              loads = std::exchange(awaits_template_, false);
                   if (health || loads) offer_node();
                   contact_.interrupted(a.signal);
                 },
                 [&](const AnnouncePreempted& a) { reporter_.worker_preempted(a.local_rank, a.code); },
                 [&](const Rejoin&) {
                   held_ranks_.clear();
                   round_has_workers_ &= end_was_planned_;  // what a failure lost is not lost to an interruption
                   if (contact_.rejoin()) send_ready();
                 },
                 [&](const Finish& a) { finish(a); },
             },
             action);
}

void Agent::start_workers(const rendezvous::Seat& seat) {
  if (options_.meeting) {
    options_.command.inherited["DDPRUN_MASTER_ADDR"] = seat.master_host;
    options_.command.inherited["DDPRUN_MASTER_PORT"] = std::to_string(seat.master_port);
  }
  park_timer_.cancel();
  memory_.begin_round(seat);
  workers_.begin(store_.seat_for_workers(seat));
  account_.workers_start();
  round_has_workers_ = true;
  end_was_planned_ = grace_is_over_ = false;
  workers_run_since_.reset();
  desk_.workers_start(Clock::now());
  hung_.reset();
  watch_.begin_round(seat);
  output_.begin_round(seat.round, seat.first_rank == 0);
  reporter_.round_begins();
  if (options_.timer_file) options_.command.inherited["TORCHELASTIC_TIMER_FILE"] = timers_.open(*options_.timer_file);
  if (template_) template_->begin_round();
  for (int local_rank = 0; local_rank < seat.workers; ++local_rank) {
    if (const int error = workers_.start(options_.command, local_rank, template_ ? &*template_ : nullptr)) {
      job_events_.worker_ended(local_rank);
      dispatch(WorkerExited{seat.round, local_rank, {.start_error = error}});
      return;
    }
    job_events_.worker_started(local_rank);
    dispatch(WorkerStarted{seat.round, local_rank});
  }
  workers_.channels().all_started();
  reporter_.workers_run();
  workers_run_since_ = Clock::now();
  desk_.workers_run(*workers_run_since_);
  account_.workers_run(*workers_run_since_);
  output_.watch();
  watch_.workers_run(seat);
  pace_.begin_round(seat.group_world_size);
  if (options_.stuck_limit) timers_.watch_for_stuck(StuckWatch(*options_.stuck_limit), seat.round);
}

// Who stays in process comes to wait for the next round; who does not in time is ended as ever. The round's store is
// closed first: who waits there for a lost peer learns of it.
void Agent::ask_to_leave() {
  if (options_.command.in_process && !no_round_follows_) {
    store_.close();
    workers_.let_park();
    park_timer_.expires_after(std::min<Duration>(kParkLimit, options_.stop.stop_grace / 2));
    park_timer_.async_wait([this](const asio::error_code& error) {
      if (!error) workers_.end_park(/*late=*/true);
    });
  }
  workers_.channels().request_leave();
}

void Agent::stop_parking() {
  no_round_follows_ = true;
  park_timer_.cancel();
  workers_.end_park(/*late=*/false);
}

// SIGKILL needs no scope: the rest of a worker's group is killed when the worker is reaped.
void Agent::signal_workers(int signal) {
  const bool for_a_failure = signal == SIGTERM && seat_ && !end_was_planned_ && contact_.signal() == 0;
  const auto then = [this, signal, round = seat_ ? seat_->round : 0] {
    if (supervisor_.round_with_workers() != round) return false;  // they have ended by themselves
    send_signal(signal);
    return true;
  };
  if (!for_a_failure || !watch_.takes_stacks_before(then)) send_signal(signal);
}

void Agent::send_signal(int signal) {
  job_events_.workers_signalled();
  close_account();
  if (signal == SIGTERM) stopping_since_ = event_at_;
  if (signal == SIGKILL) grace_is_over_ = event_at_ - stopping_since_ >= options_.stop.stop_grace;
  if (options_.stop_scope == StopScope::group)
    workers_.signal_groups(signal);
  else
    workers_.signal(signal);
}

void Agent::finish(const Finish& finish) {
  const rendezvous::Outcome& outcome = finish.outcome;
  finished_ = true;
  machine_.stop();
  if (template_) template_->stop();
  park_timer_.cancel();
  workers_.kill_parked();
  result_ = {.outcome = outcome, .finished = round_has_workers_ && workers_.all_finished(Clock::now())};
  if (round_has_workers_ && outcome.verdict == rendezvous::Verdict::interrupted)
    result_.unsaved = workers_.channels().unsaved(Clock::now(), {finish.saved.begin(), finish.saved.end()}, [this] {
      return names_channel(options_.command.program, options_.command.argv);
    });
  account_.tell(/*again=*/true);  // the coordinator writes its account, now with the last stop
  contact_.end_wait();
  memory_.end_copies();
  store_.close();
  timers_.close();
  pipes_.drain(kDrainLimit);
  output_.tell();
  job_events_.finished(outcome, account_.spent());
  desk_.job_ended(outcome);
  if (outcome.verdict == rendezvous::Verdict::interrupted && outcome.signal != SIGINT && !result_.finished)
    report_lost();
  ending_.print_report(outcome, contact_.signal() != 0, [this](const std::string& report) {
    result_.report = report;
    end();
  });
}

void Agent::report_lost() {
  const WorkerChannels::Unsaved& unsaved = result_.unsaved;
  reporter_.lost(unsaved, unsaved.saving && grace_is_over_ ? std::optional(options_.stop.stop_grace) : std::nullopt);
  if (const auto code = options_.stop.preempt_exit_code; code && !unsaved.known)
    reporter_.may_be_lost(unsaved.unknown, *code);
}

void Agent::end() {
  pipes_.show_tracebacks("");  // of a job that ended without a report
  const bool nobody_reads_files = result_.outcome.verdict == rendezvous::Verdict::success || !options_.prints_end;
  reporter_.error_files_are_in(layout_.clean_up(nobody_reads_files));
  pipes_.drain(kDrainLimit);
  desk_.push_last([this] { io_.stop(); });
}

template <class What>
void Agent::log(const char* kind, const What& what) {
  const LogLevel level = is_tick(what) ? LogLevel::debug : LogLevel::info;
  if (log_.at(level)) log_.write(level, kind + (" " + to_string(what)));
}

}  // namespace ddprun::agent
