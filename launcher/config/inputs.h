// The launcher's inputs: its environment, files and the host's name.
#pragma once
#include "launcher/config/cli.h"

namespace ddprun::launcher {

agent::Environment own_environment();
Inputs process_inputs();
// Keeps our memory and environment, with a token or a key, out of core dumps and from processes of our user, workers
// too.
void hide_own_memory();
// Overwrites the token in our environment, which /proc/<pid>/environ shows to all processes of our user, workers too.
// Read the token before.
void wipe_token_variable();

}  // namespace ddprun::launcher
