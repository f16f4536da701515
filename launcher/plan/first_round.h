// What each worker of a job's first round would get, for --dry-run, by the functions that start workers. Pure.
#pragma once
#include <vector>

#include "agent/agent.h"
#include "launcher/print/dry_run.h"

namespace ddprun::launcher {

// `own`: ddprun's own environment, to compare the workers' with.
std::vector<PlannedWorker> first_round(const agent::AgentOptions& options, const agent::Environment& own);

}  // namespace ddprun::launcher
