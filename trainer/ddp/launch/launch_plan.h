// How launch() starts ddprun, and what it makes of how that ended.
//
// Decides only: values in, values or sentences out.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/launch.h"
#include "trainer/ddp/group/rank_env.h"

namespace ddprun {

// Sentences for the user, all of them at once.
std::vector<std::string> problems(const LaunchOptions& options);
// Why launch() cannot be called here: a job's environment. Empty: it can.
std::string in_a_job_already(const Environment& environment);
// The function runs in the calling process.
bool needs_no_launcher(const LaunchOptions& options);

// Where ddprun may be, best first. `library`: the file that this code is in.
std::vector<std::string> launcher_places(const LaunchOptions& options, const Environment& environment,
                                         const std::string& library);

// `program`: a path; `arguments`: the calling program's own.
std::vector<std::string> launcher_command(const std::string& ddprun, const LaunchOptions& options,
                                          const std::string& program, const std::vector<std::string>& arguments);

// Of which call of launch() a process is the worker, and where that one's files are: a variable's text.
struct LaunchedBy {
  std::size_t call = 0;
  std::string folder;
};
constexpr const char* kLaunchedByVariable = "DDPRUN_LAUNCHED_BY";
std::string to_text(const LaunchedBy& by);
std::optional<LaunchedBy> launched_by_from(const std::string& text);

// How ddprun ended.
struct LauncherEnd {
  int exit_code = 0;  // 128 + N where signal N killed it
  int signal = 0;     // that somebody sent us meanwhile; 0: none
  bool late = false;  // the time was over
};
// What ddprun said of it in the file that DDPRUN_END_FILE names (docs/events.md), from its content. Empty: nothing.
constexpr const char* kEndFileVariable = "DDPRUN_END_FILE";
std::string message_in(const std::string& end_file);
// LaunchFailed's text.
std::string failure_words(const LauncherEnd& end, const std::string& message, const LaunchOptions& options);

// An exception in a worker as torchelastic writes it.
std::string error_file(const std::string& type, const std::string& what, std::chrono::system_clock::time_point now);

}  // namespace ddprun
