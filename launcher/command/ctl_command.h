// `ddprun ctl [JOB] ACT`: acts on a running job.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// The exit code: 0 if it was carried out, 1 if the job refuses it. `words`: those after "ctl".
int control_job(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
