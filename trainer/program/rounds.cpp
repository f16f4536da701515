#include "trainer/program/rounds.h"

#include <torch/cuda.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "ddprun/process_group.h"
#include "ddprun/worker.h"
#include "trainer/ddp/group/lost_peer.h"

namespace ddprun::train {
namespace {

Progress::Style style_of(const RankEnv& env) {
  if (env.rank != 0) return Progress::Style::silent;
  return isatty(STDOUT_FILENO) ? Progress::Style::terminal : Progress::Style::lines;
}

bool rejoin(Worker& worker, RankEnv& env) {
  abort_process_group();
  if (!worker.rejoin()) return false;
  const auto [now, problems] = read_rank_env(process_environment());
  if (problems.empty()) env = now;
  return problems.empty();
}

}  // namespace

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

void end_group(const Options& options) {
  if (!is_initialized()) return;
  const bool nccl = default_group().backend() == Backend::nccl;
  if (nccl) torch::cuda::synchronize(default_group().device().index());
  if (nccl || options.group.init_method.starts_with("file://")) destroy_process_group();
}

}  // namespace ddprun::train
