// Asks the name servers and Slurm about a node. Edge: within seconds each.
#pragma once
#include "launcher/scheduler/node_address.h"

namespace ddprun::launcher {

NodeQuestions node_questions();

}  // namespace ddprun::launcher
