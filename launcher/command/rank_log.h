// `ddprun log JOB --rank N`: what one rank prints, from its agent while the job runs, and afterwards from the files of
// --log-dir.
#pragma once
#include "launcher/jobs/job_words.h"

namespace ddprun::launcher {

// The exit code. Throws JobRefused, UsageError, Error.
int show_rank_log(const JobWords& words);

}  // namespace ddprun::launcher
