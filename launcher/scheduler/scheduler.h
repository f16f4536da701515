// Values that a scheduler's environment gives and the user did not: Slurm's for a step of srun, Kubernetes' for a pod
// of an Indexed Job.
//
// Pure: environment, host name, files and who knows a node's address are passed in, and all but the first are asked
// only where a variable calls for them.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/scheduler/node_address.h"
#include "launcher/settings/option.h"

namespace ddprun::launcher {

struct SchedulerInputs {
  const settings::Table& options;
  const std::vector<settings::Setting>& given;  // by the user
  const std::map<std::string, std::string>& environment;
  std::function<std::string()> host_name = {};
  std::function<std::string()> hosts_file = {};  // the content of /etc/hosts
  std::optional<NodeQuestions> node = {};        // empty: names are taken as they are
};

struct SchedulerValues {
  std::vector<settings::Setting> settings = {};  // none that the user gave
  std::optional<int> requeues = {};              // how often Slurm has started this job again; empty: not under Slurm
  std::vector<std::string> warnings = {};        // one sentence each, as mistakes
  std::vector<std::string> mistakes = {};
};

// Nothing with --scheduler=none, and nothing for a ddprun that a worker of another one started.
SchedulerValues scheduler_values(const SchedulerInputs& inputs);

// The step of srun or mpirun that has started this process and others: "Slurm's step 7.0"; empty: none, or unknown.
std::string step_of(const std::map<std::string, std::string>& environment);

}  // namespace ddprun::launcher
