#include "trainer/program/verbs.h"

#include <torch/utils.h>
#include <unistd.h>

#include <utility>

#include "rendezvous/base/print_line.h"
#include "trainer/config/shards_line.h"
#include "trainer/config/write_line.h"
#include "trainer/data/augment.h"
#include "trainer/data/cifar10.h"
#include "trainer/data/image_sets.h"
#include "trainer/data/image_shards.h"
#include "trainer/loop/writing.h"
#include "trainer/machine/device_choice.h"
#include "trainer/program/error_report.h"
#include "trainer/program/worker_device.h"
#include "trainer/tour/tour.h"
#include "trainer/tour/tour_line.h"

namespace ddprun::train {
namespace {

int tour(const TourLine& line, const RankEnv& env) {
  std::string problem;
  const auto device = worker_device(line.device, env, problem);
  if (!problem.empty()) return report_usage_errors({problem}, env);
  torch::set_num_threads(1);  // the ranks share the machine
  return run_tour(line.name, {.svg = line.svg, .samples = line.samples, .batch_size = line.batch_size},
                  device.value_or(at::kCPU));
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

}  // namespace

int tour_main(std::vector<std::string> arguments) {
  const TourLine line = read_tour_line(std::move(arguments));
  if (line.early_exit) return exit_early(*line.early_exit);
  const auto [env, problems] = read_rank_env(process_environment());
  if (!problems.empty()) return report_usage_errors(problems, env);
  say_where_ranks_are_from(env);
  return run_and_report(env, [&, &own = env] { return tour(line, own); });
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

}  // namespace ddprun::train
