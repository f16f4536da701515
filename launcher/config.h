// Everything a person can ask for, as a plain struct with argued defaults. The command line fills it (cli.h); nothing
// below the launcher reads the environment or the command line.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct Config {
  // Nodes of the job: one, until several are supported.
  std::string nnodes = "1";
  // Workers on this node: a number, "cpu", "gpu", or "auto" (GPUs where there are any, else CPUs).
  std::string nproc_per_node = "1";
  bool standalone = false;
  // Unlike torchrun's 0: a job that comes back is why one uses a launcher. A failure that repeats before any progress
  // ends the job all the same.
  int max_restarts = 3;
  // Empty: a fresh random one, so that two jobs never become one by accident.
  std::string rdzv_id;
  std::string master_addr;  // empty: 127.0.0.1
  int master_port = 0;      // 0: a free one for every round
  bool no_python = false;
  bool module = false;
  std::string log_dir;  // empty: none
  std::string role = "default";
  std::string redirects = "0", tee = "0", local_ranks_filter, stdout_filters, stderr_filters;
  std::string log_prefix = "[${role_name}${local_rank}]:", log_layout = "ddprun";
  long log_size = 0;
  int log_keep = 3;
  // Seconds a worker may take to leave after SIGTERM. Schedulers kill 30 s after they ask, so 25 leaves us five.
  double stop_grace_s = 25;
  bool verbose = false;
  // The program and its arguments, untouched.
  std::vector<std::string> program;
};

// What this machine has, for "cpu", "gpu" and "auto".
struct Machine {
  int cpus = 1;  // that this process may run on
  int gpus = 0;  // NVIDIA devices that CUDA_VISIBLE_DEVICES leaves
};

// The number that nproc_per_node stands for; empty where it is neither a positive number nor a known word, or "gpu"
// where there is none.
std::optional<int> worker_count(const std::string& nproc_per_node, const Machine& machine);

// Every mistake, one sentence each: what, where, how to mend.
std::vector<std::string> problems(const Config& config, const Machine& machine);

}  // namespace ddprun
