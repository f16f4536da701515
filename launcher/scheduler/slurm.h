// What a step of srun says about its nodes: SLURM_STEP_NUM_NODES, SLURM_STEP_NODELIST and so on. Pure.
#pragma once
#include <cstdint>

#include "launcher/scheduler/proposals.h"

namespace ddprun::launcher {

// Outside a step (a batch script, salloc's shell) only the number of requeues, and a warning where nodes stay idle.
void propose_slurm(Proposals& proposals);

// Whether SLURM_STEP_ID names a step of srun: not none, and not the batch script's or salloc's shell's.
bool is_step_of_srun(const std::string& id);

// Where the nodes of a step meet: 20000 + (job + 997 * step) mod 9000. So neighbouring jobs and steps that share a node
// do not meet each other, and the port is below the ephemeral ports (32768), the node ports of Kubernetes (30000) and
// torchrun's own (29400, 29500).
int slurm_port(std::uint64_t job, std::uint64_t step);

}  // namespace ddprun::launcher
