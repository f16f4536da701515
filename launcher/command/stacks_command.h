// `ddprun stacks [JOB]`: prints what every worker of a running job does now, with the stacks of its threads.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

std::string stacks_help();
// The exit code. `words`: those after "stacks". JOB: as choose_job() takes it.
int show_stacks(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
