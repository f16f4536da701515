// What the environment sets: PET_MAX_RESTARTS=5 stands for --max-restarts=5. Pure.
#pragma once
#include <string>
#include <vector>

#include "agent/process/worker_env.h"
#include "launcher/settings.h"

namespace ddprun {

struct Twins {
  std::vector<Setting> settings;
  std::vector<std::string> mistakes;
};

// An empty variable sets nothing. A PET_ variable that is nearly an option's is a mistake; any other is not ours.
Twins read_twins(const Environment& environment);

}  // namespace ddprun
