// Which variables of the head's environment the agents on other hosts get. Pure.
//
// Those that say where programs and libraries are and how they compute and communicate: PATH, LD_LIBRARY_PATH, TZ,
// LOGLEVEL, NO_COLOR, virtual and conda environments, and all that begin with PYTHON, TORCH, NCCL_, GLOO_, OMP_ and so
// on. None that belongs to a machine or a session: CUDA_VISIBLE_DEVICES, HOME, DISPLAY, SSH_*, SLURM_*.
#pragma once
#include <map>
#include <string>

namespace ddprun::launcher {

bool is_handed_on(const std::string& name);
std::map<std::string, std::string> handed_environment(const std::map<std::string, std::string>& own);

}  // namespace ddprun::launcher
