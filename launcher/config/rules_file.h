// The rules of a job's file: what is done about failures (rendezvous/coordination/round/failure_rules.h).
//
//   [[rules]]                                  # in order; the first one that matches wins
//   class = "out-of-memory"                    # or ["error", "crash"]
//   exit-code = 77                             # or [77, 78]
//   signal = "SIGSEGV"
//   stderr = 'NCCL error.*unhandled'           # a regular expression (PCRE2), in the last lines of stderr
//   action = "restart-elsewhere"               # restart, restart-elsewhere, requeue or stop
//
// Or about the output of workers that run (agent/logs/output_watch.h):
//   line = 'loss (\S+)'                        # with these two or without them
//   value = "nan"                              # or "> 100", "< 0.1"
//   for = "2m"
//   silent = "5m"                              # instead of line
//
// Pure: TOML in, rules and sentences out.
#pragma once
#include <string>
#include <vector>

#include "agent/logs/output_watch.h"
#include "launcher/settings/config_file.h"
#include "rendezvous/coordination/round/failure_rules.h"

namespace ddprun::launcher {

struct Rules {
  std::vector<rendezvous::FailureRule> failures = {};
  std::vector<agent::OutputRule> output = {};
};
// Refuses a rule that can never match.
Rules read_rules(const toml::node& node, settings::FileNotes& notes);

// As such a file; each rule with the place where it is written.
std::string print_rules(const Rules& rules);

}  // namespace ddprun::launcher
