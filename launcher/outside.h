// What a launcher sees of the world before it starts anything: its environment and files.
#pragma once
#include "launcher/cli.h"

namespace ddprun::launcher {

agent::Environment own_environment();
Outside this_process();
// Overwrites the token where /proc/<pid>/environ shows it to every process of our user, workers too. Who needs it takes
// it before.
void wipe_token_variable();

}  // namespace ddprun::launcher
