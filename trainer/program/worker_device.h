// The device of this worker: what the settings ask for, on the GPUs that are here.
#pragma once
#include <c10/core/Device.h>

#include <optional>
#include <string>

#include "trainer/ddp/group/rank_env.h"

namespace ddprun::train {

// If it is known before this rank joins the group: a rank started by hand does not know which ranks share its machine.
// On an error empty, with a sentence in `problem`.
std::optional<at::Device> worker_device(const std::string& name, const RankEnv& env, std::string& problem);

}  // namespace ddprun::train
