// The only place where concrete classes are wired together: Config in, result out.
#pragma once
#include <string>

#include "agent/logs/job_end.h"
#include "launcher/config/config.h"
#include "launcher/jobs/ended_job.h"

namespace ddprun::launcher {

// A fresh name for a job that has none. Throws Error.
std::string random_run_id();

// A sentence: which Python scripts would get here, and why.
std::string interpreter_here();

// Describes what launch() would start. Starts nothing and creates no folder. Throws UsageError.
std::string dry_run(const Config& config, const Machine& machine);

// Runs the job, and keeps a record of it. `keeper_fd` is from continue_under_keeper(). Throws Error.
agent::JobEnd launch(const Config& config, const Machine& machine, int keeper_fd, const Start& start);

}  // namespace ddprun::launcher
