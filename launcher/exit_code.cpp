#include "launcher/exit_code.h"

#include <csignal>
#include <string_view>

#include "agent/process/exit_status.h"
#include "launcher/config/exit_codes.h"
#include "rendezvous/channel/worker_exit.h"

namespace ddprun::launcher {
namespace {

bool nothing_lost(const agent::JobResult& result) { return result.unsaved.known && result.unsaved.steps == 0; }

// Every notice of one is handled as SIGTERM.
bool is_preemption(const rendezvous::Outcome& outcome) {
  return outcome.verdict == rendezvous::Verdict::interrupted && outcome.signal == SIGTERM;
}

int own_exit_code(const agent::JobResult& result, std::optional<int> on_preempt) {
  const rendezvous::Outcome& outcome = result.outcome;
  switch (outcome.verdict) {
    case rendezvous::Verdict::success:
      return kSuccess;
    case rendezvous::Verdict::worker_failed:
      return kWorkerFailed;
    case rendezvous::Verdict::worker_final:
      return outcome.cause->status.code == kWorkerExitUnsaved ? kUnsaved : kDoNotRequeue;
    case rendezvous::Verdict::stopped:
      return kDoNotRequeue;
    case rendezvous::Verdict::requeue:
      return kRequeue;
    case rendezvous::Verdict::interrupted:
      if (result.finished) return kSuccess;  // the workers had nothing left to do: not to be started again
      if (on_preempt && is_preemption(outcome)) return *on_preempt;
      if (outcome.signal == SIGINT || outcome.signal == SIGPIPE) return kInterrupted + outcome.signal;
      return nothing_lost(result) ? kRequeue : kInterrupted + outcome.signal;
    case rendezvous::Verdict::too_few_nodes:
    case rendezvous::Verdict::refused:
      return kRendezvousImpossible;
    case rendezvous::Verdict::too_few_left:
    case rendezvous::Verdict::out_of_reach:
      return kRequeue;
  }
  return kInternalError;
}

// As in a shell: 128 plus the signal, 126 if the program could not be started.
int exit_code_of_worker(const rendezvous::ExitStatus& status) {
  if (status.start_error) return 126;
  if (status.signal) return kInterrupted + status.signal;
  return status.code ? status.code : static_cast<int>(kWorkerFailed);
}

int exit_code(const agent::JobResult& result, const ExitRules& rules) {
  if (rules.choice == ExitCodeChoice::worker && result.outcome.cause)
    return exit_code_of_worker(result.outcome.cause->status);
  const int code = own_exit_code(result, rules.on_preempt);
  if (rules.on_preempt && is_preemption(result.outcome)) return code;  // named for this case alone
  return rules.choice == ExitCodeChoice::torchrun && code != kSuccess ? static_cast<int>(kWorkerFailed) : code;
}

// For a failure the report, as printed, without ddprun's name.
std::string message_of(const agent::JobResult& result) {
  constexpr std::string_view kPrefix = "ddprun: ";
  const rendezvous::Outcome& outcome = result.outcome;
  if (result.report.starts_with(kPrefix)) return result.report.substr(kPrefix.size());
  if (outcome.verdict == rendezvous::Verdict::success) return {};
  if (outcome.verdict == rendezvous::Verdict::interrupted)
    return "the job was interrupted by " + agent::signal_name(outcome.signal) + ".";
  return "the job ended: " + outcome.reason + ".";
}

}  // namespace

agent::JobEnd end_of(const agent::JobResult& result, const ExitRules& rules) {
  agent::JobEnd end{exit_code(result, rules), message_of(result), {}};
  if (const auto& cause = result.outcome.cause)
    end.first_failure = {cause->rank, cause->local_rank, cause->host, agent::torchrun_code(cause->status)};
  return end;
}

}  // namespace ddprun::launcher
