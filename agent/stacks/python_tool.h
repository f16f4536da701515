// Finds py-spy or pystack for a Python process, and runs it.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

// What is known of a Python process; all empty for another one.
struct PythonProcess {
  std::string executable = {};                // the interpreter's file
  std::vector<std::string> bin_folders = {};  // beside the interpreter, also a virtual environment's
  explicit operator bool() const { return !executable.empty(); }
};

// From /proc/<pid>. Python is a program of this name, or one that has mapped libpython.
PythonProcess python_process(pid_t pid);

struct PythonTool {
  std::vector<std::string> command = {};  // without the pid; empty: none was found
  std::string searched = {};              // where, for people
};

// py-spy, else pystack: PYSPY_BIN of `environment` (NAME=value), the interpreter's folders, then PATH of `environment`.
// In folders only what root or we own and nobody else may change: it runs with our rights.
PythonTool find_python_tool(const PythonProcess& process, const std::vector<std::string>& environment);

struct ToolResult {
  std::string text = {};     // what it printed
  std::string missing = {};  // why there is none
};

// Blocks until it has ended, at most until `deadline`, when it is killed. It runs in a session of its own, as our
// child, which the thread that reaps orphans may reap first.
ToolResult run_python_tool(const std::vector<std::string>& command, pid_t pid,
                           const std::vector<std::string>& environment, TimePoint deadline);

}  // namespace ddprun::agent
