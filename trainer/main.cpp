// `train`: settings, then the rank, its device, and training; the exit code says how it ended.
#include <torch/utils.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ddprun/deterministic.h"
#include "ddprun/freed_memory.h"
#include "ddprun/prefork.h"
#include "rendezvous/base/version.h"
#include "trainer/config/command_line.h"
#include "trainer/machine/device_choice.h"
#include "trainer/program/error_report.h"
#include "trainer/program/rounds.h"
#include "trainer/program/verbs.h"
#include "trainer/program/worker_device.h"

namespace ddprun::train {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error(std::strerror(errno));
  if (std::filesystem::is_directory(path)) throw std::runtime_error("it is a folder");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Ranks started by hand get from the command line what a launcher sets in the environment.
Environment with_given_rank(Environment environment, const GroupOptions& group) {
  if (group.rank < 0) return environment;
  environment["RANK"] = std::to_string(group.rank);
  environment["WORLD_SIZE"] = std::to_string(group.world_size);
  return environment;
}

int code_of(Ending ending) {
  if (ending == Ending::requeue) return kRequeue;
  if (ending == Ending::unsaved) return kUnsaved;
  return ending == Ending::left ? kFailed : 0;
}

int run(const CommandLine& config, RankEnv& env, const Environment& environment) {
  const Options& options = config.options;
  if (options.training.deterministic) use_deterministic_algorithms();
  std::string problem;
  const auto device = worker_device(options.machine.device, env, problem);
  if (!problem.empty()) return report_usage_errors({problem}, env);
  const auto threads = static_cast<int>(options.machine.threads);
  if (const int chosen = choose_threads(threads, environment.count("OMP_NUM_THREADS"))) torch::set_num_threads(chosen);
  const Ending ending = train_in_rounds(config, env, device);
  if (ending != Ending::left) end_group(options);
  if (ending == Ending::unsaved) wait_for_rank_0_report(env);
  return code_of(ending);
}

int main(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "write") return write_main({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "shards") return shards_main({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "tour") return tour_main({arguments.begin() + 1, arguments.end()});
  const CommandLine config = read_command_line(std::move(arguments), read_text, process_environment(), kCommit);
  if (config.early_exit) return exit_early(*config.early_exit);
  const Environment environment = with_given_rank(process_environment(), config.options.group);
  auto [env, problems] = read_rank_env(environment, config.options.group.init_method == "env://");
  if (!problems.empty()) return report_usage_errors(problems, env);
  say_where_ranks_are_from(env);
  return run_and_report(env, [&, &own = env] { return run(config, own, environment); });
}

}  // namespace
}  // namespace ddprun::train

int main(int argc, char** argv) {
  ddprun::keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, and training goes on
  ddprun::prefork(argc, argv);
  const int code = ddprun::train::main({argv + 1, argv + argc});
  std::fflush(nullptr);
  // Not exit(): LibTorch's destructors may wait for threads whose peers are gone, and take long even without errors.
  _exit(code);
}
