#include "agent/tell/failures.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "agent/diagnosis/last_lines.h"
#include "agent/diagnosis/rule_search.h"
#include "agent/logs/console.h"
#include "agent/tell/job_ending.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {

// Our own workers are signalled already, and heartbeats have a thread.
rendezvous::WorkerFailed Failures::describe(rendezvous::Failure failure, const RoundSoFar& round,
                                            const std::optional<OutputWatch::Finding>& found) {
  if (needs_last_lines(failure.status)) {
    const MayWait for_the_last_line;
    pipes_.await_end(failure.round, failure.rank, kLastOutputWait);
  }
  const bool has_progressed = round.has_progressed();
  if (!round.progressed && failure.status.code)
    failure.last_line = last_line_to_compare(pipes_.last_lines(failure.round, failure.rank));
  failure.cannot_begin =
      !has_progressed && cannot_begin(failure.status, pipes_.last_lines(failure.round, failure.rank));
  failure.kind = reporter_.class_of(failure, has_progressed);
  if (failure.status.by_output && found && found->rule.silent) failure.kind = rendezvous::FailureClass::hang;
  last_ = failure;
  round_of_last_ = round;
  return {failure, round.progressed, rule_for(failure, found)};
}

bool Failures::none_can_begin(int round) const {
  return last_ && last_->round == round && (last_->cannot_begin || last_->kind == rendezvous::FailureClass::usage);
}

bool Failures::by_lost_reader(const rendezvous::Failure& failure) const {
  if (failure.status.ok() || !(nobody_reads(STDOUT_FILENO) || nobody_reads(STDERR_FILENO))) return false;
  if (failure.status.signal == SIGPIPE || failure.status.code == 128 + SIGPIPE) return true;
  const auto lines = failure.status.code ? pipes_.last_lines(failure.round, failure.rank) : std::vector<std::string>{};
  return !lines.empty() && lines.back().find(std::strerror(EPIPE)) != std::string::npos;
}

bool Failures::by_left_debugger(const rendezvous::Failure& failure) const {
  return failure.status.code != 0 && failure.rank == 0 && isatty(STDIN_FILENO) &&
         last_line_to_compare(pipes_.last_lines(failure.round, failure.rank)) == "bdb.BdbQuit";
}

bool Failures::needs_last_lines(const rendezvous::ExitStatus& status) const {
  const auto searches = [](const rendezvous::FailureRule& rule) { return !rule.pattern.empty(); };
  return status.code != 0 || status.signal == SIGABRT || std::any_of(rules_.begin(), rules_.end(), searches);
}

std::optional<rendezvous::RuleMatch> Failures::rule_for(const rendezvous::Failure& failure,
                                                        const std::optional<OutputWatch::Finding>& found) {
  if (failure.status.by_output && found) return rendezvous::RuleMatch{found->rule.action, found->rule.place};
  const RuleSearch search = search_rules(rules_, failure.kind, failure.status,
                                         [&] { return pipes_.last_lines(failure.round, failure.rank); });
  for (const rendezvous::FailureRule& rule : search.too_slow) reporter_.rule_too_slow(rule, failure.rank);
  return search.match;
}

}  // namespace ddprun::agent
