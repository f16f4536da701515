// `train`: parse, check, run, exit code.
#include <c10/util/Exception.h>
#include <torch/cuda.h>
#include <torch/utils.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "ddprun/deterministic.h"
#include "ddprun/freed_memory.h"
#include "ddprun/prefork.h"
#include "ddprun/process_group.h"
#include "ddprun/worker.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/print_line.h"
#include "rendezvous/channel/worker_exit.h"
#include "trainer/config/command_line.h"
#include "trainer/config/shards_line.h"
#include "trainer/config/write_line.h"
#include "trainer/data/augment.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/image_sets.h"
#include "trainer/data/image_shards.h"
#include "trainer/ddp/collectives/all_or_none.h"
#include "trainer/ddp/group/gpu.h"
#include "trainer/ddp/group/lost_peer.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/loop/loop.h"
#include "trainer/loop/writing.h"
#include "trainer/machine/device_choice.h"
#include "trainer/tour/tour.h"
#include "trainer/tour/tour_line.h"

namespace ddprun::train {
namespace {

constexpr int kFailed = 1, kUsage = kWorkerExitUsage, kUnsaved = kWorkerExitUnsaved,
              kRequeue = 75;  // as ddprun's own, EX_TEMPFAIL

constexpr std::chrono::seconds kLauncherStopLimit{1};
// A node's first rank may have another command line than rank 0; its other ranks have the same as the first.
constexpr std::chrono::seconds kRank0ReportLimit{3};

// Called before printing an error that all ranks find: if rank 0 prints it and exits, the launcher ends us meanwhile.
void wait_for_rank_0_report(const RankEnv& env) {
  if (env.rank == 0 || !env.under_agent) return;
  std::this_thread::sleep_for(env.local_rank == 0 ? kRank0ReportLimit : 2 * kRank0ReportLimit);
}

int report_usage_errors(const std::vector<std::string>& sentences, const RankEnv& env) {
  wait_for_rank_0_report(env);
  for (const auto& sentence : sentences) print_line(stderr, "train: " + sentence);
  return kUsage;
}

Progress::Style style_of(const RankEnv& env) {
  if (env.rank != 0) return Progress::Style::silent;
  return isatty(STDOUT_FILENO) ? Progress::Style::terminal : Progress::Style::lines;
}

// This worker's device, if known before it joins the group: a rank started by hand does not know which ranks share its
// machine. On an error empty, with a sentence in `problem`.
std::optional<at::Device> choose(const std::string& name, const RankEnv& env, std::string& problem) {
  const DeviceChoice requested = device_choice(name);
  if (requested == DeviceChoice::cpu) return at::kCPU;
  if (!env.local_given && env.world_size > 1) return {};
  const Gpus gpus = find_gpus();
  const auto choice = choose_device(requested, gpus, env);
  if (std::holds_alternative<UseCpu>(choice) && !gpus.too_old.empty() && env.local_rank == 0)
    print_line(stderr, "train: the GPUs are not used: " + gpus.too_old + ".");
  if (const auto* sentence = std::get_if<std::string>(&choice)) problem = *sentence;
  if (std::holds_alternative<AskPeers>(choice)) return at::kCUDA;
  if (const auto* gpu = std::get_if<UseGpu>(&choice)) {
    load_gpu_support();
    return at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(gpu->index));
  }
  return at::kCPU;
}

int code_of(Ending ending) {
  if (ending == Ending::requeue) return kRequeue;
  if (ending == Ending::unsaved) return kUnsaved;
  return ending == Ending::left ? kFailed : 0;
}

bool rejoin(Worker& worker, RankEnv& env) {
  abort_process_group();
  if (!worker.rejoin()) return false;
  const auto [now, problems] = read_rank_env(process_environment());
  if (problems.empty()) env = now;
  return problems.empty();
}

// Round after round, if this process stays; `env` is the last one's.
Ending train_in_rounds(const CommandLine& config, RankEnv& env, std::optional<at::Device> device) {
  Worker worker;
  const bool stays = worker.stay_in_process();
  for (Kept kept;;) {
    Progress progress(stdout, style_of(env), static_cast<int>(config.options.logging.every));
    std::exception_ptr loss;
    try {
      const Ending ending = train(config, env, device, progress, worker, kept);
      if (!stays || ending != Ending::left) return ending;
    } catch (const std::exception& error) {
      if (!stays || !is_loss_of_peer(error)) throw;
      loss = std::current_exception();
    }
    if (rejoin(worker, env)) continue;
    if (loss) std::rethrow_exception(loss);
    return Ending::left;
  }
}

// The last rank removes the rendezvous file. On a GPU an error of the last kernels comes up here, and NCCL wants to be
// told. Otherwise the process's end is enough.
void end_group(const Options& options) {
  if (!is_initialized()) return;
  const bool nccl = default_group().backend() == Backend::nccl;
  if (nccl) torch::cuda::synchronize(default_group().device().index());
  if (nccl || options.group.init_method.starts_with("file://")) destroy_process_group();
}

int run(const CommandLine& config, RankEnv& env, const Environment& environment) {
  const Options& options = config.options;
  if (options.training.deterministic) use_deterministic_algorithms();
  std::string problem;
  const auto device = choose(options.machine.device, env, problem);
  if (!problem.empty()) return report_usage_errors({problem}, env);
  const auto threads = static_cast<int>(options.machine.threads);
  if (const int chosen = choose_threads(threads, environment.count("OMP_NUM_THREADS"))) torch::set_num_threads(chosen);
  const Ending ending = train_in_rounds(config, env, device);
  if (ending != Ending::left) end_group(options);
  if (ending == Ending::unsaved) wait_for_rank_0_report(env);
  return code_of(ending);
}

int tour(const TourLine& line, const RankEnv& env) {
  std::string problem;
  const auto device = choose(line.device, env, problem);
  if (!problem.empty()) return report_usage_errors({problem}, env);
  torch::set_num_threads(1);  // the ranks share the machine
  return run_tour(line.name, {.svg = line.svg, .samples = line.samples, .batch_size = line.batch_size},
                  device.value_or(at::kCPU));
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// With NCCL's own last error, which stands further below.
std::string line_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch ? reason(*torch) : first_line(sentence_of(error));
}

// The launcher reports which rank failed first: when one dies, the others exit at once without output. Only a peer that
// is alive but did not arrive in time is reported.
int report(const std::exception& error, const RankEnv& env) {
  const std::string why = line_of(error);
  const bool timed_out = why.find("imed out") != std::string::npos || why.find("timeout") != std::string::npos;
  const std::string rank_prefix = env.world_size > 1 ? "rank " + std::to_string(env.rank) + ": " : "";
  if (!is_loss_of_peer(error))
    print_line(stderr, "train: " + rank_prefix + why);
  else if (timed_out || !env.under_agent)
    print_line(stderr, "train: rank " + std::to_string(env.rank) + " lost a peer and cannot go on without it: " + why);
  // A peer's sockets close before its launcher detects its death: if we exited now, our exit might come first and be
  // taken for the cause. The launcher ends us once it knows.
  if (is_loss_of_peer(error) && env.under_agent) std::this_thread::sleep_for(kLauncherStopLimit);
  return kFailed;
}

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

// Who means one training per process learns how to have it.
void say_where_ranks_are_from(const RankEnv& env) {
  if (env.from_task.empty() || env.rank != 0) return;
  const std::string place =
      env.master_addr.empty() ? "" : ", which meet at " + env.master_addr + ":" + std::to_string(env.master_port);
  print_line(stderr, "train: " + env.from_task + " makes this rank 0 of " + std::to_string(env.world_size) + place +
                         "; RANK=0 WORLD_SIZE=1 in the environment gives each process a training of its own.");
}

int exit_early(const EarlyExit& early_exit) {
  const RankEnv env = read_rank_env(process_environment(), /*needs_store=*/false).env;
  if (early_exit.code != 0) wait_for_rank_0_report(env);
  print_text(early_exit.code ? stderr : stdout, early_exit.text);
  return early_exit.code;
}

// Runs `work` and reports its exceptions.
int run_and_report(const RankEnv& env, const std::function<int()>& work) try {
  return work();
} catch (const UsageError& error) {
  return report_usage_errors({error.what()}, env);
} catch (const Error& error) {
  print_line(stderr, std::string("train: ") + error.what());
  return kFailed;
} catch (const AgreedUsageError& error) {
  return report_usage_errors({first_line(error.what())}, env);
} catch (const AgreedError& error) {
  wait_for_rank_0_report(env);
  print_line(stderr, "train: " + first_line(error.what()));
  return kFailed;
} catch (const std::exception& error) {
  return report(error, env);
}

int tour_main(std::vector<std::string> arguments) {
  const TourLine line = read_tour_line(std::move(arguments));
  if (line.early_exit) return exit_early(*line.early_exit);
  const auto [env, problems] = read_rank_env(process_environment());
  if (!problems.empty()) return report_usage_errors(problems, env);
  say_where_ranks_are_from(env);
  return run_and_report(env, [&, &own = env] { return tour(line, own); });
}

// The flips of the set; FROM's files say which one it is.
int write_shards(const ShardsLine& line) {
  DataSpec spec{.name = line.dataset, .folder = line.from};
  if (spec.name.empty()) spec.name = has_cifar10(line.from) ? "cifar10" : "mnist";
  const ImageSet* set = find_image_set(spec.name);
  const ImageSplits images = set->read(spec);
  const Images& train = images.train;
  write_image_shards(images,
                     {.channels = train.channels,
                      .height = train.height,
                      .width = train.width,
                      .classes = train.classes,
                      .mean_std = mean_std_of(train),
                      .flips = set->flips},
                     line.to, line.shard_bytes);
  print_line(stdout, line.to + " has " + std::to_string(train.size()) + " images to train on and " +
                         std::to_string(images.test.size()) + " to test on: train --dataset shards --data " + line.to);
  return 0;
}

int shards_main(std::vector<std::string> arguments) {
  const ShardsLine line = read_shards_line(std::move(arguments));
  if (line.early_exit) return exit_early(*line.early_exit);
  const RankEnv env = read_rank_env(process_environment(), /*needs_store=*/false).env;
  if (env.rank != 0) return 0;  // one process writes
  return run_and_report(env, [&] { return write_shards(line); });
}

int write_main(std::vector<std::string> arguments) {
  const WriteLine line = read_write_line(std::move(arguments));
  if (line.early_exit) return exit_early(*line.early_exit);
  const RankEnv env = read_rank_env(process_environment(), /*needs_store=*/false).env;
  if (env.rank != 0) return 0;  // one process writes
  if (const int chosen = choose_threads(0, process_environment().count("OMP_NUM_THREADS")))
    torch::set_num_threads(chosen);
  return run_and_report(env, [&] { return write_text(line, isatty(STDOUT_FILENO)), 0; });
}

int main(std::vector<std::string> arguments) {
  if (!arguments.empty() && arguments.front() == "write") return write_main({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "shards") return shards_main({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments.front() == "tour") return tour_main({arguments.begin() + 1, arguments.end()});
  const CommandLine config = read_command_line(std::move(arguments), read_text, process_environment());
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
