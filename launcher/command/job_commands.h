// `ddprun run`, `submit`, `status`, `describe`, `log`, `cancel` and `list`: jobs in files, and where they run.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// The exit code. `words` begins with the command, one of is_job_command() (job_words.h).
int job_command(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
