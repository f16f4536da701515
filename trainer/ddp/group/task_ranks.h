// The ranks of processes that mpirun or srun started themselves, without ddprun: from Open MPI's, MPICH's, PMIx's and
// Slurm's variables. Pure.
#pragma once
#include <string>

#include "trainer/ddp/group/rank_env.h"

namespace ddprun {

struct TaskRanks {
  std::string from;       // the variable with the rank; empty: this process is alone, or its ranks are given otherwise
  Environment variables;  // RANK and WORLD_SIZE; where known also MASTER_ADDR and MASTER_PORT
  std::string job;        // the same for all ranks of this run, and for no other run; empty: unknown
  std::string problem;    // a sentence: the ranks could not meet
};

// RANK or WORLD_SIZE, and workers of a launcher, win: nothing is taken then. Nor outside srun's steps (a batch script,
// salloc's shell), where SLURM_NTASKS counts tasks that are not started yet, nor in the shell of srun --pty, whose
// other tasks have no terminal. Without `needs_store` the ranks meet elsewhere.
TaskRanks task_ranks(const Environment& environment, bool needs_store = true);

// "n[01-03,7],login2" begins with n01.
std::string first_host(const std::string& node_list);

}  // namespace ddprun
