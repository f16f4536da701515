// What a worker writes to TORCHELASTIC_ERROR_FILE, and what ddprun writes to its own.
//
// Pure: evidence.h reads and writes the files. A worker may have left anything there: whatever it is, is shown.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

using WallTime = std::chrono::system_clock::time_point;

struct WorkerError {
  std::string text = {};              // the traceback where there is one, else the message; empty: none
  std::optional<WallTime> when = {};  // as the worker wrote it
};

// Either form of torchelastic's is read; what is no JSON of that kind is shown as it is, cut at 4 KiB.
WorkerError error_in(const std::string& error_file_content);

// What tells of a worker's end where it wrote no error file itself.
struct WorkerEndFacts {
  rendezvous::ExitStatus status;
  int pid = 0;
  WallTime when = {};
  std::string message = {};     // one line
  std::string last_lines = {};  // of its stderr, for the place of a traceback
};

// The job's error in torchrun's form: what the worker wrote, with "errorCode" added inside "message" (a "message" that
// is a text stays as it is, as under torchrun). Where the worker left nothing, or no such JSON, a file made from its
// end.
std::string parent_error_file(const std::string& worker_content, const WorkerEndFacts& end);

// Fit for a terminal and for JSON: what a line holds after its last carriage return, without control characters and
// escape sequences, bytes that are no UTF-8 as U+FFFD, cut at `bytes_max`.
std::string printable_line(const std::string& line, std::size_t bytes_max);

}  // namespace ddprun::agent
