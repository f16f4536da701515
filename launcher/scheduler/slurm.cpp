#include "launcher/scheduler/slurm.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "launcher/scheduler/node_list.h"
#include "launcher/settings/values.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::launcher {
namespace {

using Count = std::uint64_t;

// From here on step ids are no steps of srun: salloc's shell, the batch script and others.
constexpr Count kSpecialSteps = 0xfffffff0;
constexpr Count kFirstPort = 20'000, kPorts = 9'000, kStepsApart = 997;

std::optional<Count> count(const Variable& variable) { return settings::whole_text<Count>(variable.value); }

std::string subject(const Variable& variable) {
  return variable.name + " in the environment is '" + variable.value + "'";
}

class Slurm {
 public:
  explicit Slurm(Proposals& proposals)
      : proposals_(proposals),
        step_(proposals.variable({"SLURM_STEP_ID", "SLURM_STEPID"})),
        nodes_(proposals.variable({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"})),
        tasks_(proposals.variable({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"})),
        job_(proposals.variable({"SLURM_JOB_ID_HET_GROUP_0", "SLURM_JOB_ID"})) {}

  void propose() {
    const auto requeues = count(proposals_.variable("SLURM_RESTART_COUNT")).value_or(0);
    proposals_.values.requeues = static_cast<int>(std::min<Count>(requeues, 1'000'000));
    if (proposals_.standalone()) return;
    if (is_step_of_srun(step_.value))
      propose_from_step();
    else
      warn_of_idle_nodes();
  }

 private:
  // And takes nothing, or what is missing would be a second mistake.
  void refuse(const std::string& sentence) {
    proposals_.values.mistakes.push_back(sentence);
    proposals_.values.settings.clear();
  }

  void propose_from_step() {
    const bool several_tasks = most_tasks_on_a_node() > 1;
    const bool several_nodes = count(nodes_).value_or(1) > 1;
    if (proposals_.given("nnodes") || proposals_.given("node-rank")) {
      if ((several_tasks || several_nodes) && !proposals_.given("node-rank")) warn_of_tasks(several_tasks);
      if (several_tasks) return;  // the user may tell the tasks apart
    } else {
      if ((several_tasks || several_nodes) && proposals_.variable("SLURM_PTY_PORT")) return refuse_terminal();
      if (several_tasks) return refuse_several_tasks();
    }
    propose_workers();
    propose_nodes();
    propose_job();
  }

  // All of the step but the spares.
  void propose_nodes() {
    if (!nodes_) return;
    const Count spares = proposals_.number_given("spares"), nodes = count(nodes_).value_or(0);
    const Count left = nodes > spares ? nodes - spares : 1;
    proposals_.propose("nnodes", spares > 0 && nodes > 0 ? std::to_string(left) : nodes_.value, nodes_.name);
  }

  void warn_of_idle_nodes() {
    const Count nodes = nodes_of_job();
    if (proposals_.given("nnodes") || nodes < 2) return;
    proposals_.values.warnings.push_back(
        "Slurm's job " + job_.value + " has " + std::to_string(nodes) +
        " nodes, but ddprun runs on this machine alone: start it by srun, or pass --standalone.");
  }

  // Of all components of a heterogeneous job.
  Count nodes_of_job() const {
    constexpr Count kComponentsMax = 128;  // Slurm's own limit
    const Count components = count(proposals_.variable("SLURM_HET_SIZE")).value_or(0);
    if (components == 0) return count(proposals_.variable({"SLURM_JOB_NUM_NODES", "SLURM_NNODES"})).value_or(1);
    Count nodes = 0;
    for (Count i = 0; i < std::min(components, kComponentsMax); ++i)
      nodes += count(proposals_.variable(("SLURM_JOB_NUM_NODES_HET_GROUP_" + std::to_string(i)).c_str())).value_or(0);
    return nodes;
  }

  // "2(x3),1" has 2.
  Count most_tasks_on_a_node() const {
    Count most = 1;
    for (const std::string& part : split(tasks_.value, ','))
      most = std::max(most, settings::whole_text<Count>(part.substr(0, part.find('('))).value_or(1));
    return most;
  }

  // By one task. The user may mean it.
  void warn_of_tasks(bool share_machines) {
    if (proposals_.variable("SLURM_PROCID").value != "0") return;
    if (!proposals_.several_nodes())
      proposals_.values.warnings.push_back(
          subject(tasks_) +
          ", and each task's ddprun runs a job of its own, as --nnodes is 1: to have one, leave it out.");
    else if (share_machines)
      proposals_.values.warnings.push_back(subject(tasks_) +
                                           ", and each task's ddprun is a node of the job, also where they share a "
                                           "machine: for one per machine, srun --ntasks-per-node=1.");
  }

  void refuse_several_tasks() {
    const std::string most = std::to_string(most_tasks_on_a_node()), nodes = nodes_ ? nodes_.value : "1";
    refuse(subject(tasks_) + ", but ddprun starts a node's workers itself: srun --ntasks=" + nodes +
           " --ntasks-per-node=1 ddprun --nproc-per-node=" + most + ".");
  }

  // Of other steps, nodes do not know where this one meets.
  void name_missing_nodes(Count wanted) {
    proposals_.values.mistakes.push_back(
        "The job is to have " + std::to_string(wanted) + " nodes (--nnodes), but " + subject(nodes_) +
        ": leave --nnodes out, start the step on more nodes, or name the place to meet by --rdzv-endpoint.");
  }

  // Either every task is a ddprun, or each is a shell of which the user sees the first one: we cannot know.
  void refuse_terminal() {
    refuse(
        "srun --pty gives a terminal to the first of its tasks only: start ddprun by srun without --pty, or pass "
        "--standalone in its shell.");
  }

  // The GPUs of this node: "8", "a100:8", "a100:4,v100:4".
  void propose_workers() {
    const Variable gpus = proposals_.variable({"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"});
    Count all = 0;
    for (const std::string& part : split(gpus.value, ','))
      all += settings::whole_text<Count>(part.substr(part.rfind(':') + 1)).value_or(0);
    if (all > 0) proposals_.propose("nproc-per-node", std::to_string(all), gpus.name);
  }

  // A user who named the place where nodes meet may have nodes elsewhere: only a static job's rank is missing then.
  void propose_job() {
    const bool several = proposals_.several_nodes();
    if (proposals_.given("nnodes") && !several) return;  // a job for each node
    if (!proposals_.has_endpoint() || proposals_.etcd()) propose_id();
    if (!several) return;
    if (proposals_.elastic()) proposals_.propose("rdzv-backend", "c10d", step_.name);
    if (proposals_.has_endpoint() || proposals_.etcd()) {
      const Variable rank = proposals_.variable("SLURM_NODEID");
      if (rank && !proposals_.elastic()) proposals_.propose("node-rank", rank.value, rank.name);
      return;
    }
    const Count wanted = proposals_.number_given("nnodes"), here = count(nodes_).value_or(wanted);
    if (wanted > here && !proposals_.variable("SLURM_HET_SIZE")) name_missing_nodes(wanted);
    propose_place();
  }

  // "1234", "1234_7" of an array, "1234.2" of a job's third step: steps may run side by side.
  void propose_id() {
    const Variable array = proposals_.variable("SLURM_ARRAY_JOB_ID"), task = proposals_.variable("SLURM_ARRAY_TASK_ID");
    const bool of_array = array && task;
    const std::string job = of_array ? array.value + "_" + task.value : job_.value;
    const bool first = count(step_) == 0u;
    proposals_.propose("rdzv-id", job + (first ? "" : "." + step_.value), of_array ? array.name : job_.name);
  }

  void propose_place() {
    const Variable list = proposals_.variable({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    if (!list) return;
    auto expanded = expand_node_list(list.value);
    if (const auto* wrong = std::get_if<settings::Wrong>(&expanded))
      return refuse(settings::invalid_value(list.name + " in the environment", list.value, wrong->complaint) +
                    " Name the first node by --master-addr.");
    const auto& names = std::get<std::vector<std::string>>(expanded);
    propose_rank(names);
    const auto job = count(job_);
    const NodeAddress first = proposals_.address_of(names.front());
    if (!first.problem.empty()) warn_of_unknown_node(names.front(), list, first.problem);
    proposals_.propose_endpoint(first.host, list.name,
                                job ? std::to_string(slurm_port(*job, count(step_).value_or(0))) : "", job_.name);
  }

  // No refusal: a name server may learn it yet, and the nodes go on looking.
  void warn_of_unknown_node(const std::string& name, const Variable& list, const std::string& problem) {
    const bool elastic = proposals_.elastic();
    proposals_.values.warnings.push_back(
        "the nodes of this job meet at " + name + ", the first one in " + list.name +
        ", but its name has no address here: " + problem + ". If it stays so, name an address of that node by " +
        (elastic ? "--rdzv-endpoint HOST:PORT (PET_RDZV_ENDPOINT)." : "--master-addr HOST (PET_MASTER_ADDR)."));
  }

  // The place in the list: where a step has several components, the list is sorted and SLURM_NODEID is not.
  void propose_rank(const std::vector<std::string>& names) {
    const Variable id = proposals_.variable("SLURM_NODEID"), own = proposals_.variable("SLURMD_NODENAME");
    const auto place = std::find(names.begin(), names.end(), own.value);
    const bool clear = own && std::count(names.begin(), names.end(), own.value) == 1;
    const std::string rank = clear ? std::to_string(place - names.begin()) : id.value;
    if (!rank.empty()) proposals_.propose("node-rank", rank, rank == id.value ? id.name : own.name);
  }

  Proposals& proposals_;
  const Variable step_, nodes_, tasks_, job_;
};

}  // namespace

int slurm_port(std::uint64_t job, std::uint64_t step) {
  return static_cast<int>(kFirstPort + (job % kPorts + kStepsApart * (step % kPorts)) % kPorts);
}

bool is_step_of_srun(const std::string& id) {
  return settings::whole_text<Count>(id).value_or(kSpecialSteps) < kSpecialSteps;
}

void propose_slurm(Proposals& proposals) { Slurm(proposals).propose(); }

}  // namespace ddprun::launcher
