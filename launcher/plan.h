// What each worker of a job's first round would get, by the functions that start the workers: for --dry-run. Pure.
#pragma once
#include <vector>

#include "agent/agent.h"
#include "launcher/dry_run.h"

namespace ddprun::launcher {

// `own`: ddprun's own environment, which the workers' is compared with.
std::vector<PlannedWorker> plan_of(const agent::AgentOptions& options, const agent::Environment& own);

}  // namespace ddprun::launcher
