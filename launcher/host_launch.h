// Jobs on several hosts by ssh: the head, and the hidden `ddprun ssh-node` on each host. Edge.
#pragma once
#include <string>

#include "agent/logs/job_end.h"
#include "launcher/config/cli.h"
#include "launcher/config/config.h"
#include "launcher/jobs/ended_job.h"
#include "launcher/plan/host_job.h"

namespace ddprun::launcher {

// What launch_on_hosts() would do. Starts nothing. Throws UsageError.
std::string dry_run_on_hosts(const Config& config, const Inputs& inputs);
HostPlan plan_of_hosts(const Config& config, const Inputs& inputs);
// Runs the job on its hosts, and keeps a record of it. Throws Error.
agent::JobEnd launch_on_hosts(HostPlan plan, int keeper_fd, const Start& start);

// Runs until its job has ended; returns the exit code.
int run_as_host_node();

}  // namespace ddprun::launcher
