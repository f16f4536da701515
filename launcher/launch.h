// The only place where concrete classes are wired together: Config in, the job's end out.
#pragma once
#include <string>

#include "agent/logs/job_end.h"
#include "launcher/config.h"

namespace ddprun::launcher {

// What launch() would start, for people. Starts nothing and makes no folder. Throws UsageError.
std::string dry_run(const Config& config, const Machine& machine);

// Runs the job. `keeper_pidfd` as continue_under_keeper() gave it. Throws Error.
agent::JobEnd launch(const Config& config, const Machine& machine, int keeper_pidfd);

}  // namespace ddprun::launcher
