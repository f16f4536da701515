#include "agent/agent.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/process/job_cookie.h"
#include "agent/process/leftovers.h"
#include "rendezvous/base/handler_time.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace {

bool contains(const std::vector<int>& signals, int signal) {
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

}  // namespace

// A node's life: it is offered, gets a seat, starts its workers, watches them, tells how they end, is offered again.

JobResult Agent::run() {
  Reporter& reporter = tell_.reporter();
  if (options_.named)
    if (const int ended = end_leftovers(own_cookie(options_.command.job.run_id)))
      reporter.ended_leftovers(ended, options_.command.job.run_id);
  if (tell_.shows_places()) reporter.logs_are_in(layout_.unnamed_folder());
  reporter.not_bound(options_.command.bindings);
  if (!children_can_be_found()) reporter.no_proc();
  if (!round_.prepare()) reporter.no_cgroup();
  outside_.start(outside_hooks(), options_.max_run);
  round_.start_template();
  machine_.start();
  watches_.hangs().start(merged(options_.command.inherited, {}));
  desk_.open_socket();
  if (const auto port = desk_.http_port())
    tell_.http_is_at(options_.metrics->page, !options_.metrics->certificate.empty(), options_.metrics->address, *port);
  desk_.start_pushes();
  contact_.start();
  desk_.start_page();
  watch_handlers_of_this_thread();
  io_.run();
  end_.requested = false;
  contact_.leave(end_.requested);
  await_files();
  return end_.result;
}

void Agent::on_connected() {
  if (!round_.held().empty()) return send(rendezvous::NodeReady{node(), offer()});
  if (const auto round = supervision_.now().round_with_workers())
    send(rendezvous::NodeBack{node(), *round, offer()});
  else
    send_ready();
}

void Agent::send_ready() {
  awaits_.health = contact_.signal() == 0 && !machine_.known_or_check();  // a node that leaves is in no round
  if (awaits_.health) return;
  awaits_.the_template = round_.awaits_template() && contact_.signal() == 0;
  if (awaits_.the_template) return;
  offer_node();
}

void Agent::offer_node() {
  tell_.events().waiting_for_round();
  round_.open_store();
  watches_.account().tell();
  desk_.waits_for_round(Clock::now());
  send(rendezvous::NodeReady{node(), offer()});
}

rendezvous::NodeOffer Agent::offer() const {
  return {options_.workers,
          options_.master_host,
          round_.store().port(),
          options_.role,
          options_.requested_rank,
          options_.logs.host,
          {},
          round_.seat() ? round_.seat()->round : 0,
          unfit(),
          round_.memory().held(),
          options_.workers_most,
          options_.step};
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
                   round_.workers().kill_parked();
                   tell_.reporter().excluded(m);
                 },
                 [&](const rendezvous::HeartbeatAnswer& m) {
                   const bool waits = m.attendance && !supervision_.now().round_with_workers();
                   if (!round_.seat() || waits) contact_.show_wait(m.attendance, options_.workers);
                 },
                 [&](const rendezvous::AskStandings& m) {
                   if (running_round() == m.round) watches_.hangs().look(), watches_.hangs().tell_standings();
                 },
                 [&](const rendezvous::BlameWorker& m) { watches_.hangs().blame(m.round, m.rank, m.text, m.of_all); },
                 [&](const ForDesk auto& m) { desk_.on_message(m); },
                 [&](const rendezvous::ReportAct& m) { tell_.act_carried_out(m); },
                 [&](const rendezvous::SuspendWorkers& m) {
                   if (running_round() == m.round) watches_.hangs().suspend(m.suspended);
                 },
                 [&](const rendezvous::TakeSnapshot& m) {
                   if (running_round() == m.round) round_.workers().channels().request_snapshot(Clock::now());
                 },
                 [&](const rendezvous::InjectFault& m) {
                   const bool runs = round_.seat() && running_round() == m.round;
                   faults_.inject(m.fault, runs ? std::optional(round_.seat()->first_rank) : std::nullopt);
                 },
                 [&](const rendezvous::ReportPace& m) {
                   if (running_round() != m.round) return;
                   tell_.pace_changed(m);
                   desk_.pace_changed(m);
                 },
                 [&](const rendezvous::FailureText& m) { tell_.ending().on_report(m.text); },
                 [&](const rendezvous::TakeSeat& m) { take_seat(m.seat); },
                 [&](const rendezvous::StartRound& m) { dispatch(RoundStarted{m.round}); },
                 [&](const rendezvous::EndRound& m) { end_round(m); },
                 [&](const rendezvous::EndJob& m) { end_job(m); },
             },
             message);
}

void Agent::take_seat(const rendezvous::Seat& seat) {
  contact_.on_seat();
  round_.take_seat(seat, contact_.coordination());
  watches_.account().begin(seat);
  tell_.events().round_formed(seat);
  desk_.round_formed(seat);
  dispatch(RoundFormed{seat});
}

void Agent::end_round(const rendezvous::EndRound& order) {
  const bool ours = round_.seat() && round_.seat()->round == order.round;
  round_.ended(order.planned);
  if (ours) close_account();
  tell_.round_ended(order, watches_.account().spent());
  desk_.round_ended(order, ours);
  dispatch(RoundEnded{order.round, order.planned});
}

void Agent::end_job(const rendezvous::EndJob& order) {
  close_account();
  end_.well = order.outcome.verdict == rendezvous::Verdict::success;
  tell_.ending().on_job_end(order.outcome);
  round_.stop_parking();
  dispatch(JobEnded{order.outcome});
}

void Agent::execute(const Action& action) {
  std::visit(overloaded{
                 [&](const ConfirmRound& a) {
                   round_.prepare_files([this, round = a.round] { round_.memory().confirm_when_ready(round); });
                 },
                 [&](const StartWorkers& a) { start_workers(a.seat); },
                 [&](const AskToSave&) { round_.workers().channels().request_save(Clock::now()); },
                 [&](const AskToLeave&) { round_.ask_to_leave(); },
                 [&](const AnnounceWait& a) { tell_.reporter().waiting(a.local_ranks, a.left); },
                 [&](const SignalWorkers& a) { signal_workers(a); },
                 [&](const AnnounceHeld& a) { tell_.reporter().held(a.local_ranks); },
                 [&](const ReportHeld& a) { report_held(a.local_ranks); },
                 [&](const SweepLeftovers& a) { round_.sweep(a.round); },
                 [&](const EndSweep& a) { tell_.reporter().still_there(round_.leftovers().stop(), a.round); },
                 [&](const ReportRunning& a) {
                   send(rendezvous::NodeRunning{node(), a.round});
                 },
                 [&](const ReportDone& a) {
                   close_account();
                   send(rendezvous::NodeDone{node(), a.round});
                 },
                 [&](const ReportFailure& a) { report_failure(a); },
                 [&](const ReportInterrupted& a) { report_interrupted(a.signal); },
                 [&](const AnnouncePreempted& a) { tell_.reporter().worker_preempted(a.local_rank, a.code); },
                 [&](const Rejoin&) {
                   round_.leave();
                   if (contact_.rejoin()) send_ready();
                 },
                 [&](const Finish& a) { finish(a); },
             },
             action);
}

void Agent::start_workers(const rendezvous::Seat& seat) {
  round_.begin(seat);
  watches_.begin_round(seat);
  desk_.workers_start(Clock::now());
  tell_.reporter().round_begins();
  round_.start_workers();
}

bool Agent::on_started(int local_rank, int error) {
  const int round = round_.seat()->round;
  if (error) {
    tell_.events().worker_ended(local_rank);
    dispatch(WorkerExited{round, local_rank, {.start_error = error}});
    return false;
  }
  tell_.events().worker_started(local_rank);
  dispatch(WorkerStarted{round, local_rank});
  return running_round() == round;
}

void Agent::collect_workers() {
  for (const WorkerEnd& end : round_.collect(machine_.children())) {
    const int round = round_.seat()->round;
    tell_.events().worker_ended(end.local_rank);
    watches_.output().worker_ended(round, end.local_rank);
    desk_.worker_ended(round, round_.seat()->first_rank + end.local_rank);
    if (is_ctrl_c(end)) dispatch(Signalled{SIGINT, true});
    dispatch(WorkerExited{round, end.local_rank, end.status});
  }
  round_.reap_strays(machine_.children());
}

void Agent::report_interrupted(int signal) {
  if (round_.seat()) tell_.reporter().stopping(signal, options_.stop.stop_grace);
  const Awaits awaited = std::exchange(awaits_, {});
  if (awaited.health || awaited.the_template) offer_node();  // the coordinator has to know the node that leaves
  contact_.interrupted(signal);
}

void Agent::on_signal(int signal, bool from_terminal) {
  if (signal == SIGCHLD) return collect_workers();
  if (signal == SIGTSTP || signal == SIGCONT) return watches_.hangs().suspend(signal == SIGTSTP);
  if (signal == SIGWINCH) pipes_.resize();  // the workers' terminals belong to no session and cannot send it
  if (!contains(options_.ending_signals, signal)) return round_.workers().signal(signal);
  end_.requested = true;
  round_.stop_parking();
  if (!contains(options_.preempt_signals, signal))
    return dispatch(Signalled{signal, from_terminal && round_.seat() && round_.in_foreground()});
  tell_.reporter().preempted(signal);
  dispatch(Signalled{SIGTERM});
}

}  // namespace ddprun::agent
