#include "launcher/scheduler/scheduler.h"

#include "launcher/scheduler/kubernetes.h"
#include "launcher/scheduler/proposals.h"
#include "launcher/scheduler/slurm.h"
#include "launcher/settings/values.h"

namespace ddprun::launcher {
namespace {

constexpr const char* kWorkerMark = "DDPRUN_JOB";  // in the environment of every worker

bool switched_off(const SchedulerInputs& inputs) {
  const settings::Option& option = settings::option(inputs.options, "scheduler");
  const settings::Setting* setting = in_force(inputs.given, option);
  return setting && setting->text == "none";
}

}  // namespace

SchedulerValues scheduler_values(const SchedulerInputs& inputs) {
  Proposals proposals(inputs);
  const bool slurm(proposals.variable("SLURM_JOB_ID")), kubernetes(proposals.variable("JOB_COMPLETION_INDEX"));
  if ((!slurm && !kubernetes) || switched_off(inputs) || proposals.variable(kWorkerMark)) return {};
  if (slurm)
    propose_slurm(proposals);
  else
    propose_kubernetes(proposals, inputs.host_name, inputs.hosts_file);
  return std::move(proposals.values);
}

}  // namespace ddprun::launcher
