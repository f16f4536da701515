// What a job's result means for who started ddprun: its exit code, and how it ended. Pure.
#pragma once
#include "agent/agent.h"
#include "agent/logs/job_end.h"
#include "launcher/plan/plan.h"

namespace ddprun::launcher {

agent::JobEnd end_of(const agent::JobResult& result, const ExitRules& rules);

}  // namespace ddprun::launcher
