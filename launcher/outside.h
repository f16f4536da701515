// What a launcher sees of the world before it starts anything: its environment and files.
#pragma once
#include "launcher/cli.h"

namespace ddprun {

Environment own_environment();
Outside this_process();

}  // namespace ddprun
