// `ddprun top [JOB]`: what every rank of a running job does, once a second.
#pragma once
#include "launcher/jobs/job_words.h"

namespace ddprun::launcher {

// On a terminal until the user ends it or the job ends; else one frame. Throws as LiveJob does.
void show_top(const JobWords& words);

}  // namespace ddprun::launcher
