// A job in a file, for `ddprun run` and `ddprun submit`: what --config reads (launcher/job_file.h), and what a program
// needs that runs elsewhere. SageMaker's spellings are synonyms.
//
//   name = "digits"
//   source_dir = "src"                        # where its workers run, relative to the file
//   program = ["train.py", "--epochs", "3"]   # or entry_point = "train.py"
//   nodes = 2                                 # and any other option of ddprun
//   nproc-per-node = 4
//   max_run = "8h"
//   [hyperparameters]                         # further arguments: --batch-size 64
//   batch-size = 64
//   [snapshot]
//   path = "run.pt"
//   fetch = "aws s3 cp s3://bucket/run.pt {path}"
//   store = "aws s3 cp {path} s3://bucket/run.pt"
//   [[metric_definitions]]
//   name = "loss"
//   regex = "loss ([0-9.]+)"
//
// Pure: text in, a value and sentences out.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/settings/option.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// Commands that copy the snapshot to and from a place that outlives the machine; {path} stands for the local one.
struct SnapshotCopy {
  std::string path = {};                      // relative to the working folder; empty: none
  std::string fetch = {};                     // before the first round, where there is no such file; empty: none
  std::string store = {};                     // after it has changed, and at the end; empty: none
  Duration every = std::chrono::seconds(60);  // the least time between two copies
};

struct MetricDefinition {
  std::string name = {};
  std::string regex = {};  // PCRE2; its first group is the number
};

// Words for a scheduler's own file, in the order of the job file: "partition" -> "gpu"; an empty value: a flag.
using SchedulerWords = std::vector<std::pair<std::string, std::string>>;

struct JobDescription {
  std::string name = {};                  // of [A-Za-z0-9._-]; from the file's name where it is left out
  std::string source_dir = {};            // absolute; the folder of the file where it is left out
  std::vector<std::string> program = {};  // with all arguments and hyperparameters
  std::vector<std::string> options = {};  // of ddprun, as its command line takes them, in the order of its table
  int nodes = 1;                          // the most, of nnodes
  std::map<std::string, std::string> environment = {};
  std::optional<Duration> max_run = {};
  std::optional<Duration> max_wait = {};  // for the other nodes, and in a scheduler's queue
  SnapshotCopy snapshot = {};
  std::vector<MetricDefinition> metrics = {};
  std::string output_path = {};        // absolute; gets result.json, metrics and the log; empty: the job's record only
  std::vector<std::string> tags = {};  // "team=vision", or any word
  std::string hosts = {};              // [ssh] hosts = "a:2,b:1"
  std::string hostfile = {};           // [ssh] hostfile
  SchedulerWords slurm = {};           // [slurm]: options of sbatch
  SchedulerWords kubernetes = {};      // [kubernetes]: image, namespace, kind, gpus, service-account, volume ...
};

struct JobDescriptionFile {
  JobDescription job;
  std::vector<std::string> mistakes;  // "job.toml:3: ..."
};

// `name` is the file's name for messages; `folder` the absolute one that relative paths start at. `overrides` are
// "key=value" of --set, in order; a later one wins.
JobDescriptionFile read_job_description(const std::string& name, const std::string& folder, const std::string& text,
                                        const std::vector<std::string>& overrides = {});

}  // namespace ddprun::launcher
