// A worker has failed, or SIGKILL does not end it: its class, the rule that matches, and the report to the coordinator.
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "agent/agent.h"
#include "agent/diagnosis/last_lines.h"
#include "agent/diagnosis/rule_search.h"
#include "agent/process/descendants.h"

namespace ddprun::agent {

void Agent::report_failure(const ReportFailure& report) {
  const int rank = seat_->first_rank + report.local_rank;
  last_failure_ = rendezvous::Failure{
      .round = report.round, .node = node(), .local_rank = report.local_rank, .rank = rank, .status = report.status};
  rendezvous::Failure& failure = *last_failure_;
  failure.host = options_.logs.host;
  if (failure.status.hung && hung_) {
    failure.how = hung_->how;
    failure.of_all = hung_->of_all;
  }
  if (failure.status.hung || failure.status.by_output)  // it lives, and would come to wait like the others
    workers_.replace(report.local_rank, failure.status.hung ? SIGKILL : SIGTERM);
  close_account();
  reporter_.noticed(failure);
  job_events_.failed(report.local_rank);
  machine_.suspect();
  const std::optional<bool> progressed = workers_.channels().progressed(Clock::now());
  if (needs_last_lines(failure.status))  // our own workers are signalled already, and heartbeats can wait this long
    pipes_.await_end(report.round, rank, kLastOutputWait);
  if (!progressed && failure.status.code)
    failure.last_line = last_line_to_compare(pipes_.last_lines(report.round, rank));
  failure.kind = reporter_.class_of(failure, progressed.value_or(has_lived()));
  if (failure.status.by_output && output_.finding() && output_.finding()->rule.silent)
    failure.kind = rendezvous::FailureClass::hang;
  desk_.failed(failure.kind);
  contact_.send(rendezvous::WorkerFailed{failure, progressed, rule_for(failure)});
}

// Rounds go on without this node, and it joins when they are gone.
void Agent::report_held(const std::vector<int>& local_ranks) {
  if (!workers_.kill_all()) return;
  const std::vector<pid_t> own = machine_.children();
  std::set<pid_t> spared(own.begin(), own.end());
  for (const pid_t pid : workers_.parked()) spared.insert(pid);
  kill_descendants(getpid(), spared);  // those of a worker that is not dead yet are no orphans of ours
  held_ranks_ = local_ranks;
  contact_.send(rendezvous::NodeReady{node(), offer()});
}

bool Agent::needs_last_lines(const rendezvous::ExitStatus& status) const {
  const auto searches = [](const rendezvous::FailureRule& rule) { return !rule.pattern.empty(); };
  return status.code != 0 || status.signal == SIGABRT ||
         std::any_of(options_.rules.begin(), options_.rules.end(), searches);
}

bool Agent::has_lived() const {
  return workers_run_since_ && Clock::now() - *workers_run_since_ >= options_.progress_after;
}

std::optional<rendezvous::RuleMatch> Agent::rule_for(const rendezvous::Failure& failure) {
  if (const auto& found = output_.finding(); failure.status.by_output && found)
    return rendezvous::RuleMatch{found->rule.action, found->rule.place};
  const RuleSearch search = search_rules(options_.rules, failure.kind, failure.status,
                                         [&] { return pipes_.last_lines(failure.round, failure.rank); });
  for (const rendezvous::FailureRule& rule : search.too_slow) reporter_.rule_too_slow(rule, failure.rank);
  return search.match;
}

}  // namespace ddprun::agent
