// Reads a job's description from TOML: all keys of --config (job_file.h), and
//
//   name = "digits"
//   source_dir = "src"                        # where its workers run, relative to the file
//   program = ["train.py", "--epochs", "3"]   # or entry_point = "train.py"
//   nodes = 2
//   max_wait = "10m"
//   [hyperparameters]                         # further arguments: --batch-size 64 (jobs/hyperparameters.h)
//   batch-size = 64
//   [snapshot]
//   path = "run.pt"
//   fetch = "aws s3 cp s3://bucket/run.pt {path}"
//   store = "aws s3 cp {path} s3://bucket/run.pt"
//   [slurm]
//   partition = "gpu"
//
// Names of SageMaker's Estimator (v2) and ModelTrainer (v3) are understood; what has no meaning here is a warning.
// Source: sagemaker.readthedocs.io, "Estimators" and "ModelTrainer". Pure: text in, a value and sentences out.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/job_description.h"

namespace ddprun::launcher {

struct DescribedJob {
  JobDescription job;
  std::vector<std::string> warnings;
  std::vector<std::string> mistakes;  // "job.toml:3: ..."
};

struct JobSource {
  std::string name;    // the file's, for messages
  std::string folder;  // absolute; relative paths start here
  std::string text;
  std::vector<std::string> overrides = {};  // --set KEY=VALUE, in order; a later one wins
  std::vector<std::string> arguments = {};  // for the program, after all others
};
DescribedJob read_job_description(const JobSource& source);

}  // namespace ddprun::launcher
