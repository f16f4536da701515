// What a worker writes to TORCHELASTIC_ERROR_FILE, and what ddprun writes to its own.
//
// Pure: evidence.h reads and writes the files. A worker may have written anything; its content is shown in any case.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

using WallTime = std::chrono::system_clock::time_point;

struct WorkerError {
  std::string text = {};              // the traceback if there is one, else the message; empty: none
  std::optional<WallTime> when = {};  // as the worker wrote it
};

// Reads both of torchelastic's forms; anything else is shown unchanged, cut at 4 KiB.
WorkerError error_in(const std::string& error_file_content);

// Describes a worker's end if the worker wrote no error file itself.
struct WorkerEndFacts {
  rendezvous::ExitStatus status;
  int pid = 0;
  WallTime when = {};
  std::string message = {};     // one line
  std::string last_lines = {};  // of its stderr, instead of a traceback
};

// The job's error in torchrun's form: what the worker wrote, with "errorCode" added inside "message" (a "message" that
// is a string stays unchanged, as under torchrun). If the worker left nothing, or no such JSON, it is made from `end`.
std::string parent_error_file(const std::string& worker_content, const WorkerEndFacts& end);

// Fit for a terminal and for JSON: the part of a line after its last carriage return, without control characters and
// escape sequences, with U+FFFD for bytes that are not UTF-8, cut at `bytes_max`.
std::string printable_line(const std::string& line, std::size_t bytes_max);

}  // namespace ddprun::agent
