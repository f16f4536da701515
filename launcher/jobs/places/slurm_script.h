// The batch script of a job, for sbatch: one ddprun on each node, and a requeue after a preemption, as
// scripts/schedulers/slurm-requeue.sbatch has it.
//
// Pure: the same job gives the same bytes. `slurm_problems()` (slurm_words.h) says before what cannot be.
#pragma once
#include <string>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

// `record_folder` is absolute and on a file system that all nodes share; `ddprun` is the program as the nodes find it.
std::string slurm_script(const JobDescription& job, const std::string& record_folder, const std::string& ddprun);

}  // namespace ddprun::launcher
