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

std::string step_of(const std::map<std::string, std::string>& environment) {
  const auto text = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  const std::string run = text("PMIX_NAMESPACE"), job = text("SLURM_JOB_ID"), step = text("SLURM_STEP_ID");
  if (!text(kWorkerMark).empty()) return {};
  if (!run.empty() && !text("OMPI_COMM_WORLD_SIZE").empty()) return "mpirun's run " + run;
  return !job.empty() && is_step_of_srun(step) ? "Slurm's step " + job + "." + step : "";
}

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
