// What is known of the last worker that failed here: its class, its last line, the rule that matches.
//
// For the thread of the io_context.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/logs/log_pipe.h"
#include "agent/logs/output_watch.h"
#include "agent/tell/reporter.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/failure_rules.h"

namespace ddprun::agent {

class Failures {
 public:
  // `pipes` and `reporter` must outlive it.
  Failures(LogPipes& pipes, Reporter& reporter, std::vector<rendezvous::FailureRule> rules)
      : pipes_(pipes), reporter_(reporter), rules_(std::move(rules)) {}

  // `failure` with what its rank has printed; waits a moment for the last of it. `found`: in the round's output.
  rendezvous::WorkerFailed describe(rendezvous::Failure failure, const RoundSoFar& round,
                                    const std::optional<OutputWatch::Finding>& found);
  const std::optional<rendezvous::Failure>& last() const { return last_; }
  const RoundSoFar& round_of_last() const { return round_of_last_; }
  // The round's workers could not begin, and the others will say the same.
  bool none_can_begin(int round) const;
  // It wrote to the console, which nobody reads any more.
  bool by_lost_reader(const rendezvous::Failure& failure) const;
  // Its user has left Python's debugger by `q`, which ends the program; on a terminal.
  bool by_left_debugger(const rendezvous::Failure& failure) const;

 private:
  bool needs_last_lines(const rendezvous::ExitStatus& status) const;
  std::optional<rendezvous::RuleMatch> rule_for(const rendezvous::Failure& failure,
                                                const std::optional<OutputWatch::Finding>& found);

  LogPipes& pipes_;
  Reporter& reporter_;
  const std::vector<rendezvous::FailureRule> rules_;
  std::optional<rendezvous::Failure> last_;
  RoundSoFar round_of_last_;
};

}  // namespace ddprun::agent
