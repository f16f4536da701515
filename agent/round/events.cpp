#include "agent/round/events.h"

#include "agent/process/exit_status.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace {

std::string round_and_rank(int round, int local_rank) {
  return " round=" + std::to_string(round) + " local_rank=" + std::to_string(local_rank);
}

std::string round_only(int round) { return " round=" + std::to_string(round); }

std::string listed(const std::vector<int>& numbers) {
  std::string out;
  for (const int number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return out;
}

std::string seconds(Duration time) {
  return std::to_string(std::chrono::ceil<std::chrono::seconds>(time).count()) + "s";
}

std::string verdict_name(rendezvous::Verdict verdict) {
  switch (verdict) {
    case rendezvous::Verdict::success:
      return "success";
    case rendezvous::Verdict::worker_failed:
      return "worker-failed";
    case rendezvous::Verdict::worker_final:
      return "worker-final";
    case rendezvous::Verdict::requeue:
      return "requeue";
    case rendezvous::Verdict::stopped:
      return "stopped";
    case rendezvous::Verdict::interrupted:
      return "interrupted";
    case rendezvous::Verdict::too_few_nodes:
      return "too-few-nodes";
    case rendezvous::Verdict::too_few_left:
      return "too-few-left";
    case rendezvous::Verdict::refused:
      return "refused";
    case rendezvous::Verdict::out_of_reach:
      return "out-of-reach";
  }
  return "?";
}

}  // namespace

std::string to_string(const rendezvous::ExitStatus& status) {
  if (status.hung) return "hung";
  if (status.by_output) return "by-output";
  if (status.stuck) return "stuck";
  if (status.start_error) return "start_error=" + std::to_string(status.start_error);
  return status.signal ? "signal=" + signal_name(status.signal) : "code=" + std::to_string(status.code);
}

std::string to_string(const Event& event) {
  return std::visit(
      overloaded{
          [](const RoundFormed& e) { return "round-formed" + round_only(e.seat.round); },
          [](const RoundStarted& e) { return "round-started" + round_only(e.round); },
          [](const WorkerStarted& e) { return "worker-started" + round_and_rank(e.round, e.local_rank); },
          [](const WorkerDying& e) {
            return "worker-dying" + round_and_rank(e.round, e.local_rank) + " " + to_string(e.status);
          },
          [](const WorkerExited& e) {
            return "worker-exited" + round_and_rank(e.round, e.local_rank) + " " + to_string(e.status);
          },
          [](const Swept& e) { return "swept" + round_only(e.round); },
          [](const RoundEnded& e) { return "round-ended" + round_only(e.round) + (e.planned ? " planned" : ""); },
          [](const JobEnded& e) { return "job-ended " + verdict_name(e.outcome.verdict); },
          [](const Isolated&) { return std::string("isolated"); },
          [](const Signalled& e) { return "signalled " + signal_name(e.signal) + (e.delivered ? " delivered" : ""); },
          [](const Tick&) { return std::string("tick"); },
      },
      event);
}

std::string to_string(const Action& action) {
  return std::visit(
      overloaded{
          [](const ConfirmRound& a) { return "confirm-round" + round_only(a.round); },
          [](const StartWorkers& a) { return "start-workers" + round_only(a.seat.round); },
          [](const AskToSave& a) { return "ask-to-save" + round_only(a.round); },
          [](const AskToLeave& a) { return "ask-to-leave" + round_only(a.round); },
          [](const AnnounceWait& a) {
            return "announce-wait local_ranks=" + listed(a.local_ranks) + " left=" + seconds(a.left);
          },
          [](const SignalWorkers& a) {
            return "signal-workers " + signal_name(a.signal) + (a.delivered ? " delivered" : "");
          },
          [](const AnnounceHeld& a) { return "announce-held local_ranks=" + listed(a.local_ranks); },
          [](const ReportHeld& a) { return "report-held local_ranks=" + listed(a.local_ranks); },
          [](const SweepLeftovers& a) { return "sweep-leftovers" + round_only(a.round); },
          [](const EndSweep& a) { return "end-sweep" + round_only(a.round); },
          [](const ReportRunning& a) { return "report-running" + round_only(a.round); },
          [](const ReportDone& a) { return "report-done" + round_only(a.round); },
          [](const ReportFailure& a) {
            return "report-failure" + round_and_rank(a.round, a.local_rank) + " " + to_string(a.status);
          },
          [](const ReportInterrupted& a) { return "report-interrupted " + signal_name(a.signal); },
          [](const AnnouncePreempted& a) {
            return "announce-preempted" + round_and_rank(a.round, a.local_rank) + " code=" + std::to_string(a.code);
          },
          [](const Rejoin&) { return std::string("rejoin"); },
          [](const Finish& a) {
            return "finish " + verdict_name(a.outcome.verdict) + (a.saved.empty() ? "" : " saved=" + listed(a.saved));
          },
      },
      action);
}

}  // namespace ddprun::agent
