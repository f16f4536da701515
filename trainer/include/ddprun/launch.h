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
// there. So every worker also runs what main does before launch(), and must reach the same call in the same way; what
// shall happen once, such as making folders or fetching data, goes behind `if (!ddprun::is_launched_worker())`. If a
// program calls launch() several times, the workers of a later call do not run the earlier ones again: they get their
// results, and their failures as LaunchFailed.
//
// A function that throws on one rank ends the job; so does a rank that is killed. launch() then throws LaunchFailed,
// whose what() is ddprun's report: which rank failed first, its exception, signal or exit code, and its last lines. The
// output of workers and ddprun goes to this program's stdout and stderr.
//
// With one process on one machine, and without a time-out, restarts or ddprun_arguments, the function runs in this
// process and its exceptions are passed on unchanged. With any of these options it runs in a worker.
//
// SIGINT, SIGTERM, SIGHUP and SIGQUIT, unless the program handles them itself, do not end it while it waits: they are
// forwarded to ddprun, and launch() throws once the job has stopped. If the program is killed, ddprun stops the job.
//
// Throws a UsageError of one sentence if options are invalid, ddprun is not found, or the process is already a worker
// of a job. One call at a time in a process. Needs /proc. Arguments and results are passed as CBOR in a folder that
// only this user can read: NaN, infinities and strings that are not UTF-8 are preserved.
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
  int machine_rank = 0;  // 0 to machines - 1: start the program on each machine with its own
  // The rendezvous endpoint: tcp://host:port of machine 0, the same on all. auto: one machine, any free port.
  std::string dist_url = "auto";
  std::optional<std::chrono::milliseconds> timeout = {};  // after which the whole job is ended. Empty: none
  std::chrono::seconds stop_grace{25};                    // how long workers may take from SIGTERM to SIGKILL
  int max_restarts = 0;                                   // of all workers, after a failure
  std::vector<std::string> ddprun_arguments = {};         // additional ones, each as --name or --name=value
  // The program ddprun. Empty: the one that DDPRUN_LAUNCHER names, else the one installed with this library, else the
  // one in PATH.
  std::string ddprun = {};
};

class LaunchFailed : public std::runtime_error {
 public:
  LaunchFailed(const std::string& message, int exit_code) : std::runtime_error(message), exit_code_(exit_code) {}
  // ddprun's: 1 if a worker failed, 75 if the job was preempted and has saved, 128 + N after signal N; 124 after the
  // time-out.
  int exit_code() const { return exit_code_; }

 private:
  int exit_code_;
};

// Whether this process is a worker that launch() has started: false in the program that a person starts, on each
// machine, also where launch() runs the function in it.
bool is_launched_worker();

using LaunchFunction = std::function<nlohmann::json(const nlohmann::json& arguments)>;
nlohmann::json launch(const LaunchFunction& function, const LaunchOptions& options, const nlohmann::json& arguments);
nlohmann::json launch(const LaunchFunction& function, const LaunchOptions& options = {});  // with null

}  // namespace ddprun
#pragma GCC visibility pop
