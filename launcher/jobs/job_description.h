// A job in a file, for `ddprun run` and `ddprun submit`: what --config reads (launcher/config/options_file.h), and what
// a program needs that runs elsewhere. launcher/jobs/job_file.h reads it.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// Shell commands that copy the snapshot to and from a place that outlives the machine; {path} stands for the local one.
struct SnapshotCopy {
  std::string path = {};                      // a file or folder, relative to source_dir; empty: none
  std::string fetch = {};                     // before the first round, where there is no such file; empty: none
  std::string store = {};                     // after it has changed, and at the end; empty: none
  Duration every = std::chrono::seconds(60);  // the least time between two copies
  Duration limit = std::chrono::hours(6);     // of one command; a large snapshot takes long
};

// Words for a scheduler's own file, in the order of the job file: "partition" -> "gpu"; an empty value: a flag.
using SchedulerWords = std::vector<std::pair<std::string, std::string>>;

struct JobDescription {
  std::string name = {};                  // of [A-Za-z0-9._-]; from the file's name where it is left out
  std::string source_dir = {};            // absolute; the folder of the file where it is left out
  std::vector<std::string> program = {};  // with all arguments and hyperparameters
  std::vector<std::string> options = {};  // of ddprun, "--stop-grace=30s", in the order in which they were set
  int nodes = 1;                          // the most, of nnodes
  std::optional<Duration> max_run = {};
  std::optional<Duration> max_wait = {};  // for the other nodes
  SnapshotCopy snapshot = {};
  std::string output_path = {};        // absolute folder; gets result.json and the log; empty: the job's record only
  std::vector<std::string> tags = {};  // "team=vision", or any word
  SchedulerWords slurm = {};           // [slurm]: options of sbatch
  SchedulerWords kubernetes = {};      // [kubernetes]: image, namespace, kind, gpus, service-account, volume ...
  std::string config = {};             // what runs, as --config reads it
};

}  // namespace ddprun::launcher
