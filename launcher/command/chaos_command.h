// `ddprun chaos [JOB]`: has a job suffer faults, and prints how it recovers.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// The exit code: 0 if the job has recovered from every fault, 1 if not or if it refuses. `words`: those after "chaos".
int run_chaos(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
