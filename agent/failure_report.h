// The one screen a person sees when a job fails: which rank was first, how, when, its last lines, where its log is.
//
// Pure: values in, text out.
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "rendezvous/round.h"

namespace ddprun {

struct FailureReport {
  Failure failure;
  std::string reason;  // why the job does not go on: "all restarts are used up (3 of 3)"
  std::string host;
  std::string program;
  int pid = 0;  // 0: never started
  std::chrono::system_clock::time_point when = {};
  std::chrono::nanoseconds into_round = {};  // since the worker was started
  std::string error_message = {};            // from its error file; empty: none
  std::vector<std::string> last_lines = {};  // of its stderr
  std::string log = {};                      // its log file; empty: none
  std::vector<std::string> others = {};      // "rank 1 exited with code 1", the ones not stopped by us
};

// "rank 2 (local rank 2) was killed by SIGKILL, 3.2 s into round 1"
std::string headline(const Failure& failure, std::chrono::nanoseconds into_round);
// Several lines, the first one the headline, each ended by '\n'.
std::string to_text(const FailureReport& report);

// The message in what a worker wrote to TORCHELASTIC_ERROR_FILE: the traceback where there is one. Either form of
// torchelastic's is read; what is not JSON is shown as it is, cut at 4 KiB.
std::string error_message_of(const std::string& error_file_content);

}  // namespace ddprun
