#include "trainer/ddp/group/task_ranks.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <optional>

namespace ddprun {
namespace {

// From here on step ids are no steps of srun: salloc's shell, the batch script and others.
constexpr std::uint32_t kSpecialSteps = 0xfffffff0;
// Below the ephemeral ports and torchrun's own, as ddprun's for a step of srun.
constexpr std::uint32_t kFirstPort = 20'000, kPorts = 9'000;

struct Variable {
  std::string name = {}, text = {};
  explicit operator bool() const { return !text.empty(); }
  std::optional<std::uint32_t> number() const {
    std::uint32_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    return error == std::errc() && stop == end && !text.empty() ? std::optional(value) : std::nullopt;
  }
};

class Tasks {
 public:
  explicit Tasks(const Environment& environment) : environment_(environment) {
    if (first({"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "DDPRUN_JOB"})) return;
    in_step_ = first({"SLURM_STEP_ID", "SLURM_STEPID"}).number().value_or(kSpecialSteps) < kSpecialSteps;
    // mpirun first: it may start its daemons by srun, whose variables reach us, too.
    take({"OMPI_COMM_WORLD_RANK"}, {"OMPI_COMM_WORLD_SIZE"}, {"OMPI_COMM_WORLD_LOCAL_SIZE"}) ||
        take({"PMI_RANK"}, {"PMI_SIZE"}, {"MPI_LOCALNRANKS"}) || take_slurms() ||
        take({"PMIX_RANK"}, {}, {});  // of others than these: no variable has the size
  }

  TaskRanks ranks(bool needs_store) const {
    TaskRanks out;
    const auto rank = rank_.number(), size = size_.number();
    if (rank && *rank > 0 && !size)
      out.problem = rank_.name + " is " + rank_.text + ", but no variable says how many" + kHow;
    if (!rank || size.value_or(0) <= 1) return out;
    out.from = rank_.name;
    out.job = job();
    out.variables = {{"RANK", rank_.text}, {"WORLD_SIZE", size_.text}};
    if (needs_store) find_place(out);
    return out;
  }

 private:
  static constexpr const char* kHow =
      " ranks there are: set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each, or let ddprun start them.";

  using Names = std::initializer_list<const char*>;

  Variable first(Names names) const {
    for (const char* name : names)
      if (const auto found = environment_.find(name); found != environment_.end() && !found->second.empty())
        return {name, found->second};
    return {};
  }

  bool take(Names rank, Names size, Names local_size) {
    rank_ = first(rank);
    size_ = first(size);
    const Variable local = first(local_size);
    one_host_ = local ? local.number() == size_.number() : in_step_ && on_one_node();
    return static_cast<bool>(rank_);
  }

  bool take_slurms() {
    return in_step_ && !first({"SLURM_PTY_PORT"}) &&
           take({"SLURM_PROCID"}, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"}, {});
  }

  bool on_one_node() const { return first({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}).number() == 1U; }

  std::string job() const {
    if (const Variable space = first({"PMIX_NAMESPACE", "PMI_JOBID"})) return space.text;
    const Variable id = first({"SLURM_JOB_ID"});
    return id && rank_.name == "SLURM_PROCID" ? id.text + "." + first({"SLURM_STEP_ID", "SLURM_STEPID"}).text : "";
  }

  void find_place(TaskRanks& out) const {
    const std::string list = first({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}).text;
    Variable host = first({"MASTER_ADDR"}), port = first({"MASTER_PORT"});
    if (!host) host.text = one_host_ ? "127.0.0.1" : first_host(list);
    if (!port && !out.job.empty()) port.text = std::to_string(port_of(out.job));
    out.variables["MASTER_ADDR"] = host.text;
    out.variables["MASTER_PORT"] = port.text;
    if (host && port) return;
    const std::string missing = host ? "MASTER_PORT" : port ? "MASTER_ADDR" : "MASTER_ADDR and MASTER_PORT";
    out.problem = size_.name + " is " + size_.text + ", but no variable says where these ranks meet: set " + missing +
                  " for all of them, or start one ddprun per node, as in mpirun -n 2 --map-by ppr:1:node ddprun "
                  "--nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=HOST:PORT train.";
  }

  static std::uint32_t port_of(const std::string& job) {
    std::uint32_t hash = 2166136261;  // FNV-1a: the same on all machines
    for (const char letter : job) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619;
    return kFirstPort + hash % kPorts;
  }

  const Environment& environment_;
  bool in_step_ = false, one_host_ = false;
  Variable rank_, size_;
};

}  // namespace

std::string first_host(const std::string& node_list) {
  std::string name;
  for (std::size_t at = 0; at < node_list.size() && node_list[at] != ','; ++at) {
    if (node_list[at] != '[') {
      name += node_list[at];
      continue;
    }
    const std::size_t end = node_list.find(']', at);
    name += node_list.substr(at + 1, std::min(node_list.find_first_of("-,]", at), end) - at - 1);
    if (end == std::string::npos) return "";
    at = end;
  }
  return name;
}

TaskRanks task_ranks(const Environment& environment, bool needs_store) { return Tasks(environment).ranks(needs_store); }

}  // namespace ddprun
