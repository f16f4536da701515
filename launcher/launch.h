// The only place where concrete classes are wired together: Config in, result out.
#pragma once
#include <string>

#include "agent/logs/job_end.h"
#include "launcher/config.h"

namespace ddprun::launcher {

// Describes what launch() would start. Starts nothing and creates no folder. Throws UsageError.
std::string dry_run(const Config& config, const Machine& machine);

// Runs the job. `keeper_pidfd` is from continue_under_keeper(). Throws Error.
agent::JobEnd launch(const Config& config, const Machine& machine, int keeper_pidfd);

}  // namespace ddprun::launcher
