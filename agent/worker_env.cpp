#include "agent/worker_env.h"

namespace ddprun {
namespace {

std::string inherited_or(const Environment& inherited, const std::string& name, const std::string& otherwise) {
  const auto found = inherited.find(name);
  return found == inherited.end() ? otherwise : found->second;
}

}  // namespace

Environment worker_variables(const JobIdentity& job, const Round& round, const RoundNode& node, int local_rank,
                             const std::string& error_file, const Environment& inherited) {
  const std::string rank = std::to_string(node.first_rank + local_rank);
  const std::string world_size = std::to_string(round.world_size());
  Environment env{
      {"RANK", rank},
      {"WORLD_SIZE", world_size},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(node.workers)},
      {"GROUP_RANK", std::to_string(round.group_rank(node.id))},
      {"GROUP_WORLD_SIZE", std::to_string(round.nodes.size())},
      {"ROLE_NAME", "default"},
      {"ROLE_RANK", rank},
      {"ROLE_WORLD_SIZE", world_size},
      {"MASTER_ADDR", round.master_host},
      {"MASTER_PORT", std::to_string(round.master_port)},
      {"TORCHELASTIC_RESTART_COUNT", std::to_string(round.restarts)},
      {"TORCHELASTIC_MAX_RESTARTS", std::to_string(job.max_restarts)},
      {"TORCHELASTIC_RUN_ID", job.run_id},
      {"TORCHELASTIC_USE_AGENT_STORE", "True"},  // every rank is a client of the store in the agent
      {"TORCHELASTIC_ERROR_FILE", error_file},
      {"TORCHELASTIC_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGHUP,SIGQUIT"},
      {"TORCH_NCCL_ASYNC_ERROR_HANDLING", inherited_or(inherited, "TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")},
      {"DDPRUN_ROUND", std::to_string(round.number)},
      {"DDPRUN_JOB", job.cookie},
  };
  if (node.workers > 1) env["OMP_NUM_THREADS"] = inherited_or(inherited, "OMP_NUM_THREADS", "1");
  return env;
}

std::vector<std::string> merged(const Environment& inherited, const Environment& own) {
  Environment all = own;
  all.insert(inherited.begin(), inherited.end());  // insert keeps what is there
  std::vector<std::string> out;
  out.reserve(all.size());
  for (const auto& [name, value] : all) out.push_back(name + "=" + value);
  return out;
}

}  // namespace ddprun
