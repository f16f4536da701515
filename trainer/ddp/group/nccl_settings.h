// What this library wants LibTorch's NCCL backend to do, as the environment variables that it reads when a group is
// made. Pure.
#pragma once
#include <map>
#include <string>

namespace ddprun {

// The variables to set beside those of `environment`, of which a choice of the user's stays:
// - After an error or the time-out the watchdog ends this process without an abort of NCCL's calls before, which may
//   hang itself (TORCH_NCCL_ASYNC_ERROR_HANDLING=3, LibTorch's default); the process's end frees the GPU. "1", which
//   torchrun and ddprun give every worker, aborts first: it counts as no choice.
// - Before that it sleeps for four times TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, 15 s if unset, for the sake of a dump of
//   the flight record (ProcessGroupNCCL.cpp, Watchdog::runLoop): 500 ms and no dump, unless a flight record is asked
//   for.
// - No warning that point-to-point calls of one group take turns: the ranks make none at once.
std::map<std::string, std::string> nccl_settings(const std::map<std::string, std::string>& environment);

}  // namespace ddprun
