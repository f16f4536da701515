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

// They know nothing of each other, and would write the same files. The first one of a machine goes on: it may be the
// only one, in a shell below mpirun.
void find_several_jobs(Proposals& proposals) {
  const std::string tasks = proposals.variable("OMPI_COMM_WORLD_SIZE").value;
  const std::string here = proposals.variable("OMPI_COMM_WORLD_LOCAL_RANK").value;
  bool meant = tasks == "1" || proposals.standalone();
  for (const char* const option : {"nnodes", "master-addr", "master-port", "rdzv-endpoint", "rdzv-id"})
    meant = meant || proposals.given(option);
  if (meant) return;
  const std::string found = "this is one of " + tasks + " tasks of mpirun, ";
  const std::string way_out = "; --standalone says that several jobs are meant";
  if (!here.empty() && here != "0")
    proposals.values.mistakes.push_back(found +
                                        "and the first one on this machine is a job already: start ddprun once, " +
                                        "without mpirun, with the number of ranks as --nproc-per-node" + way_out);
  else if (proposals.variable("OMPI_COMM_WORLD_RANK").value == "0")
    proposals.values.warnings.push_back(found + "and each ddprun is a job of its own: for one job give each --nnodes=" +
                                        tasks + ", --node-rank and --master-addr" + way_out);
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
  const bool mpi(proposals.variable("OMPI_COMM_WORLD_SIZE"));
  if ((!slurm && !kubernetes && !mpi) || switched_off(inputs) || proposals.variable(kWorkerMark)) return {};
  if (slurm)
    propose_slurm(proposals);
  else if (kubernetes)
    propose_kubernetes(proposals, inputs.host_name, inputs.hosts_file);
  else
    find_several_jobs(proposals);
  return std::move(proposals.values);
}

}  // namespace ddprun::launcher
