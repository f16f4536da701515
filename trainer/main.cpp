// `train`: parse, check, run, exit code.
#include <c10/util/Exception.h>
#include <torch/utils.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "ddprun/process_group.h"
#include "rendezvous/error.h"
#include "trainer/ddp/gpu.h"
#include "trainer/ddp/rank_env.h"
#include "trainer/device_choice.h"
#include "trainer/loop.h"
#include "trainer/options.h"

namespace ddprun {
namespace {

constexpr int kFailed = 1, kUsage = 2;

constexpr std::chrono::seconds kLauncherEndsUsWithin{1};

int complain(const std::vector<std::string>& sentences) {
  for (const auto& sentence : sentences) std::fprintf(stderr, "train: %s\n", sentence.c_str());
  return kUsage;
}

Progress::Style style_of(const RankEnv& env) {
  if (env.rank != 0) return Progress::Style::silent;
  return isatty(STDOUT_FILENO) ? Progress::Style::terminal : Progress::Style::lines;
}

int run(const Options& options, const RankEnv& env, const Environment& environment) {
  const auto choice = choose_device(options.device, options.device == DeviceChoice::cpu ? 0 : count_gpus(), env);
  if (const auto* problem = std::get_if<std::string>(&choice)) return complain({*problem});
  at::Device device = at::kCPU;
  if (const auto* gpu = std::get_if<UseGpu>(&choice)) {
    load_gpu_support();
    device = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu->index));
  }
  if (const int threads = choose_threads(options.threads, environment.count("OMP_NUM_THREADS")))
    torch::set_num_threads(threads);
  Progress progress(stdout, style_of(env), options.log_every);
  return train(options, env, device, progress) == Ending::left ? kFailed : 0;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Which of the ranks failed first is for the launcher to say: when one dies the others leave at once, without a word. A
// peer that is alive but did not come in time is worth one.
int report(const std::exception& error, const RankEnv& env) {
  const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
  const std::string why = first_line(torch_error ? torch_error->what_without_backtrace() : error.what());
  const bool timed_out = why.find("imed out") != std::string::npos;
  if (!is_loss_of_peer(error))
    std::fprintf(stderr, "train: rank %d: %s\n", env.rank, why.c_str());
  else if (timed_out || !env.under_agent)
    std::fprintf(stderr, "train: rank %d lost a peer and cannot go on without it: %s\n", env.rank, why.c_str());
  // A peer's sockets close before its launcher hears of its death: an end of ours now might come first, and be taken
  // for the cause. The launcher ends us when it knows.
  if (is_loss_of_peer(error) && env.under_agent) std::this_thread::sleep_for(kLauncherEndsUsWithin);
  return kFailed;
}

int main(std::vector<std::string> arguments) {
  const auto parsed = parse_options(std::move(arguments));
  if (parsed.leave) {
    std::fputs(parsed.leave->text.c_str(), parsed.leave->code ? stderr : stdout);
    return parsed.leave->code;
  }
  const Environment environment = process_environment();
  const auto [env, env_problems] = read_rank_env(environment);
  auto all_problems = problems(parsed.options);
  all_problems.insert(all_problems.end(), env_problems.begin(), env_problems.end());
  if (!all_problems.empty()) return complain(all_problems);
  try {
    return run(parsed.options, env, environment);
  } catch (const Error& error) {
    std::fprintf(stderr, "train: %s\n", error.what());
    return kFailed;
  } catch (const std::exception& error) {
    return report(error, env);
  }
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const int code = ddprun::main({argv + 1, argv + argc});
  std::fflush(nullptr);
  // Not exit(): LibTorch's destructors may wait for threads whose peers are gone, and take long even when all is well.
  _exit(code);
}
