// The one screen a person sees when a job fails: which rank was first, where, how, when, what that means, what became
// of the others, its last lines, where its log is. Lines of ddprun's own fit 80 columns where their words do.
//
// Pure: values in, text out.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "agent/diagnosis/error_file.h"
#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// A worker that was not the first to fail, and did not end well either.
struct OtherEnd {
  int rank = 0;
  rendezvous::ExitStatus status;
};

struct FailureReport {
  rendezvous::Failure failure;
  std::string reason;  // why the job does not go on: "all restarts are used up (3 of 3)"
  std::string host;
  std::string program;
  int pid = 0;  // 0: never started
  WallTime when = {};
  std::chrono::nanoseconds into_round = {};  // since the worker was started
  std::string meaning = {};                  // diagnosis.h; empty: none
  std::string core = {};                     // where its core is, or why there is none; empty: not that kind of death
  WorkerError error = {};                    // from its error file
  std::vector<std::string> last_lines = {};  // of its stderr
  std::string log = {};                      // its log file; empty: none
  std::vector<OtherEnd> others = {};
};

// "rank 2 (local rank 2) was killed by SIGKILL, 3.2 s into round 1"
std::string headline(const rendezvous::Failure& failure, std::chrono::nanoseconds into_round);
// Several lines, the first one the headline, each ended by '\n'.
std::string to_text(const FailureReport& report);

// Does such a text quote every line of this one? Which rank it was does not matter.
bool quotes(const std::string& report, const std::string& lines);

// "rank 0 exited with code 1; ranks 2-5 and 7 were killed by SIGSEGV": one phrase for all that ended alike.
std::string ends_in_words(const std::vector<OtherEnd>& ends);

}  // namespace ddprun::agent
