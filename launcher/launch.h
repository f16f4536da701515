// Carries a plan out, or shows it.
#pragma once
#include <string>

#include "agent/logs/job_end.h"
#include "launcher/jobs/ended_job.h"
#include "launcher/plan/plan.h"

namespace ddprun::launcher {

// A sentence: which Python scripts would get here, and why.
std::string interpreter_here();

// What launch() would start. Starts nothing and creates no folder.
std::string dry_run(const Plan& plan);

// Runs the job, and keeps a record of it. `keeper_fd` is from continue_under_keeper(). Throws Error.
agent::JobEnd launch(Plan plan, int keeper_fd, const Start& start);

}  // namespace ddprun::launcher
