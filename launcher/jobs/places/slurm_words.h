// The options of sbatch for a job: our defaults, and the words of [slurm], which replace them. Pure.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

// A sentence for each word of [slurm] that would break the job or what reads its output.
std::vector<std::string> slurm_problems(const JobDescription& job);

// Those of [slurm] about a container (slurm_container.h), with dashes; sbatch does not get them.
SchedulerWords container_words(const JobDescription& job);

// In the order of the script: ours, then the job's own; without dashes. An empty value: a flag.
SchedulerWords sbatch_options(const JobDescription& job, const std::string& record_folder);

bool has_word(const SchedulerWords& words, const std::string& name);

// "8:05:00" for max_run = "8h": what Slurm has to allow so that the job can save and end by itself; empty: no max_run.
std::string slurm_time_limit(const JobDescription& job);

}  // namespace ddprun::launcher
