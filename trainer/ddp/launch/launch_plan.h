// How launch() starts ddprun, and how it interprets its end.
//
// Pure: values in, values or sentences out.
#pragma once
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ddprun/launch.h"
#include "trainer/ddp/group/rank_env.h"

namespace ddprun {

// Sentences for the user, all at once.
std::vector<std::string> problems(const LaunchOptions& options);
// Why launch() cannot be called in a job's environment. Empty: it can.
std::string already_in_job(const Environment& environment);
// Whether the function runs in the calling process.
bool runs_in_process(const LaunchOptions& options);

// Where ddprun may be, best first. `library`: the file that this code is in.
std::vector<std::string> launcher_candidates(const LaunchOptions& options, const Environment& environment,
                                             const std::string& library);

// `program`: a path; `arguments`: the calling program's own.
std::vector<std::string> launcher_command(const std::string& ddprun, const LaunchOptions& options,
                                          const std::string& program, const std::vector<std::string>& arguments);

// The text of the variable that tells a worker its call of launch() and the folder of its files.
struct LaunchedBy {
  std::size_t call = 0;
  std::string folder;
};
constexpr const char* kLaunchedByVariable = "DDPRUN_LAUNCHED_BY";
std::string to_text(const LaunchedBy& by);
std::optional<LaunchedBy> launched_by_from(const std::string& text);

// How ddprun ended.
struct LauncherEnd {
  int exit_code = 0;       // 128 + N if signal N killed it
  int signal = 0;          // received by us meanwhile; 0: none
  bool timed_out = false;  // the time-out was reached
};
// ddprun's message in the content of the file that DDPRUN_END_FILE names (docs/events.md). Empty: none.
constexpr const char* kEndFileVariable = "DDPRUN_END_FILE";
std::string message_in(const std::string& end_file);
// LaunchFailed's text.
std::string failure_text(const LauncherEnd& end, const std::string& message, const LaunchOptions& options);

// An exception in a worker, in torchelastic's format.
std::string error_file(const std::string& type, const std::string& what, std::chrono::system_clock::time_point now);

}  // namespace ddprun
