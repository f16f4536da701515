// A rank's training over all rounds of its job that this process stays for.
#pragma once
#include <c10/core/Device.h>

#include <optional>

#include "trainer/config/command_line.h"
#include "trainer/ddp/group/rank_env.h"
#include "trainer/loop/loop.h"

namespace ddprun::train {

// `env` is the last round's afterwards. Throws what training throws.
Ending train_in_rounds(const CommandLine& config, RankEnv& env, std::optional<at::Device> device);

// The last rank removes the rendezvous file. On a GPU an error of the last kernels comes up here, and NCCL wants to be
// told. Otherwise the process's end is enough.
void end_group(const Options& options);

}  // namespace ddprun::train
