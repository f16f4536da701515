// Reads this process's rank and the rendezvous from the environment that the launcher sets (torchrun's names).
//
// Pure: the caller passes the environment as a map. Without RANK and WORLD_SIZE those of mpirun and srun count
// (task_ranks.h), and without those the world is this process.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

using Environment = std::map<std::string, std::string>;

struct RankEnv {
  int rank = 0;  // 0 .. world_size - 1
  int world_size = 1;
  int local_rank = 0;  // among the workers of this machine
  int local_world_size = 1;
  bool local_given = false;  // by the launcher; else the two above assume one machine
  int group_rank = -1;       // the node's number, from the launcher; -1: unknown
  std::string master_addr;   // where the store listens; empty if world_size is 1
  std::uint16_t master_port = 0;
  // The master's routable address: our own address is the one on the route to it. Differs from master_addr if the store
  // is reached through the launcher on this machine.
  std::string route_addr;
  std::string network_interface;  // GLOO_SOCKET_IFNAME, for users who set it; mostly empty
  // The launcher serves the store and every rank is a client; otherwise rank 0 serves it.
  bool agent_store = false;
  // A launcher watches us: it reports the first failure and restarts us.
  bool under_agent = false;
  int round = 1;          // 1 for the first start of the job, one more for every restart
  std::string from_task;  // the variable of mpirun or srun that the rank is from; empty: from RANK, or there is none
  std::string job;        // as TaskRanks::job
};

// Either problems (sentences for the user, all at once) or a consistent environment.
struct RankEnvResult {
  RankEnv env;
  std::vector<std::string> problems;
};
// Without `needs_store` the store is elsewhere: MASTER_ADDR and MASTER_PORT may be missing.
RankEnvResult read_rank_env(const Environment& environment, bool needs_store = true);

// The environment of this process.
Environment process_environment();

}  // namespace ddprun
