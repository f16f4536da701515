// A container for the job's steps on Slurm: [slurm] image and what belongs to it. Pure.
//
// By pyxis, a plugin of srun (github.com/NVIDIA/pyxis), or by apptainer. The batch script itself stays outside, where
// Slurm's programs are.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

// Whether a word of [slurm], with dashes, is about a container that ddprun enters, and none of sbatch's.
bool is_container_word(const std::string& name, const std::string& value);

// `words`: those.
std::vector<std::string> container_problems(const JobDescription& job, const SchedulerWords& words);

struct ContainerLines {
  std::string before = {};        // lines of bash, which set `mounts`
  std::string srun_options = {};  // behind srun
  std::string entry = {};         // before the program
  std::string program = {};       // ddprun as it is called inside
};
// Without an image there is nothing in them but the program. Behind lines that have set `ddprun` and `record`.
ContainerLines container_lines(const JobDescription& job, const SchedulerWords& words);

}  // namespace ddprun::launcher
