// Recognizes well-known last lines of a worker's stderr: a missing library or module, a command not found, memory that
// ran out.
//
// Pure: a table of what loaders, shells, Python and C++ write.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// The Python that ran a worker, and which other one here has a module.
struct PythonHere {
  std::string ran = {};  // empty: not known
  std::function<std::string(const std::string& module)> other_with = {};
};

// One sentence with the remedy, without a final stop; empty if no line is known. Later lines come first.
std::string meaning_of_lines(const rendezvous::ExitStatus& status, const std::vector<std::string>& last_lines,
                             const PythonHere& python = {});

// The class of failure that such a line shows: out-of-memory, or start, which needs exit code 126 or 127 or no
// progress. Empty if no line is known, or it shows none.
std::optional<rendezvous::FailureClass> class_of_lines(const rendezvous::ExitStatus& status, bool progressed,
                                                       const std::vector<std::string>& last_lines);

// Whether its last line says that it cannot begin: a module or file that is missing, a syntax error, a state that fits
// no model. A restart would only repeat it, unless there has been progress. A port that is taken may be free next time.
bool cannot_begin(const rendezvous::ExitStatus& status, const std::vector<std::string>& last_lines);

// Whether a line is about how ranks meet: a connection, a store, a timeout, or a variable such as RANK. Frames of a
// traceback, a usage, and PyTorch's advice at the end of any failed program are not.
bool is_about_meeting(const std::vector<std::string>& last_lines);

// The place that the last line of a Python traceback is about: "train.py:3"; empty: none.
std::string place_of_traceback(const std::vector<std::string>& last_lines);

// "KeyError: 'lr'": the error of the Python traceback with which the lines end; empty: they end otherwise.
std::string error_of_traceback(const std::vector<std::string>& last_lines);

// For comparing two failures (Failure::last_line): the last line that is not empty, printable, at most kLastLineMax
// bytes, without the rank that PyTorch puts before it ("[rank3]: ").
std::string last_line_to_compare(const std::vector<std::string>& last_lines);

}  // namespace ddprun::agent
