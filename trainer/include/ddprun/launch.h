// Runs a function in several processes from within a program: the program starts ddprun on itself.
//
//   nlohmann::json train(const nlohmann::json& arguments) {
//     const auto group = ddprun::init_process_group();
//     ...
//     return {{"loss", loss}};
//   }
//   int main() {
//     const auto result = ddprun::launch(train, {.processes_per_machine = 4}, {{"lr", 0.1}});
//   }
//
// In the program that a person starts, launch() starts `ddprun this-program its-arguments`, waits, and returns what the
// function returned on rank 0 (on machine 0; null on the others). In each worker that ddprun starts, the same call runs
// the function and then leaves the process, by _exit() once stdio and iostreams are flushed: nothing after it runs
// there. So what main does before launch() every worker does, too, and must come to the same call in the same way; a
// program that calls launch() several times gets the earlier calls' results, and their failures as LaunchFailed, handed
// to the workers of a later one, which do not run them again.
//
// A function that throws on one rank ends the job; so does a rank that is killed. launch() then throws LaunchFailed,
// whose what() is ddprun's report: which rank was first, by which exception, signal or exit code, and its last lines.
// What workers and ddprun write goes to this program's stdout and stderr.
//
// One process on one machine, without a time-out, restarts or ddprun's arguments: the function runs in this process,
// and its exceptions come as they are. With any of them it is a worker of its own.
//
// SIGINT, SIGTERM, SIGHUP and SIGQUIT, where the program has no handlers of its own, do not end it while it waits: they
// go on to ddprun, and launch() throws once the job has stopped. Should the program be killed, ddprun stops the job.
//
// Throws UsageError's one sentence for options that cannot be and where there is no ddprun, and where the process is a
// worker of a job already. One call at a time in a process. Needs /proc. Arguments and results travel as CBOR in a
// folder that only this user can read: NaN, infinities and strings that are no UTF-8 are kept.
#pragma once
#include <chrono>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

struct LaunchOptions {
  int processes_per_machine = 1;
  int machines = 1;
  int machine_rank = 0;  // 0 to machines - 1: each machine starts the program itself, with its own
  // Where the machines meet: tcp://host:port of machine 0, the same on all. auto: one machine, any free port.
  std::string dist_url = "auto";
  std::optional<std::chrono::milliseconds> timeout = {};  // of the whole job; then it is ended. Empty: none
  std::chrono::seconds stop_grace{25};                    // how long workers may take from SIGTERM to SIGKILL
  int max_restarts = 0;                                   // of all workers, after a failure
  std::vector<std::string> ddprun_arguments = {};         // more of them, each as --name or --name=value
  // The program ddprun. Empty: the one that DDPRUN_LAUNCHER names, else the one installed beside this library, else
  // PATH's.
  std::string ddprun = {};
};

class LaunchFailed : public std::runtime_error {
 public:
  LaunchFailed(const std::string& words, int exit_code) : std::runtime_error(words), exit_code_(exit_code) {}
  // ddprun's: 1 where a worker failed, 75 where the job was preempted and has saved, 128 + N after signal N; 124 where
  // the time was over.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

using LaunchFunction = std::function<nlohmann::json(const nlohmann::json& arguments)>;
nlohmann::json launch(const LaunchFunction& function, const LaunchOptions& options, const nlohmann::json& arguments);
nlohmann::json launch(const LaunchFunction& function, const LaunchOptions& options = {});  // with null

}  // namespace ddprun
#pragma GCC visibility pop
