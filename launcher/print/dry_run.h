// --dry-run: prints what each rank would get. Pure: the plan is made by the functions that start the workers.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/worker_env.h"

namespace ddprun::launcher {

// What differs from ddprun's own environment; nullopt: the variable is removed.
using EnvironmentDifference = std::map<std::string, std::optional<std::string>>;

EnvironmentDifference difference(const agent::Environment& own, const agent::Environment& workers);

struct PlannedWorker {
  int rank = 0;
  int local_rank = 0;
  std::string program = {};  // the path to exec
  std::vector<std::string> argv = {};
  EnvironmentDifference environment = {};
  std::vector<int> cpus = {};     // empty: as ddprun
  std::string memory_nodes = {};  // "0"; empty: as ddprun
  std::string stdin_from = {};
  std::vector<std::string> stdout_to = {}, stderr_to = {};  // "logs/run/stdout.log", "the console"
};

std::string dry_run_text(const std::vector<PlannedWorker>& workers);

}  // namespace ddprun::launcher
