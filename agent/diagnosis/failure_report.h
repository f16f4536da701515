// The screen that is printed when a job fails: which rank failed first, where, how and when, what that means, how the
// others ended, its last lines, where its log is. ddprun's own lines fit 80 columns if their words do.
//
// Pure: values in, text out.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "agent/diagnosis/error_file.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// A worker that was not the first to fail, but did not succeed either.
struct OtherEnd {
  int rank = 0;
  rendezvous::ExitStatus status;
  bool alike = false;  // with the same last words as the first
};

struct FailureReport {
  rendezvous::Failure failure;
  std::string reason;  // why the job does not continue: "all restarts are used up (3 of 3)"
  std::string host;
  std::string program;  // with its arguments
  int pid = 0;          // 0: never started
  WallTime when = {};
  std::chrono::nanoseconds into_round = {};  // since the worker was started
  std::string meaning = {};                  // diagnosis.h; empty: none
  std::string note = {};                     // what else may be why; empty: nothing
  std::string core = {};                     // where its core is, or why there is none; empty: such deaths write none
  WorkerError error = {};                    // from its error file
  std::vector<std::string> last_lines = {};  // of its stderr
  std::string log = {};                      // its log file; empty: none
  std::vector<OtherEnd> others = {};         // on this node
  int world_size = 0;                        // of the round
  bool is_shown = false;                     // its last lines are on the console already
};

// "rank 1 on n0 was killed by SIGKILL", "rank 3 hung in model.py:212"
std::string failure_in_words(const rendezvous::Failure& failure, bool several_nodes);

// "rank 2 was killed by SIGKILL, 3.2 s into round 1"
std::string headline(const rendezvous::Failure& failure, std::chrono::nanoseconds into_round);
// Several lines, the first one the headline, each ended by '\n'. Three at most of workers that could not begin, for all
// of them.
std::string to_text(const FailureReport& report);

// The same with all that is known, whatever it is about.
std::string to_full_text(const FailureReport& report);

// Whether such a report quotes every line of `lines`. The ranks may differ.
bool quotes(const std::string& report, const std::string& lines);

// "rank 0 exited with code 1; ranks 2-5 and 7 were killed by SIGSEGV": one phrase for all with the same end.
std::string ends_in_words(const std::vector<OtherEnd>& ends);

}  // namespace ddprun::agent
