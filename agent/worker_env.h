// (job, round, local rank) → what a worker finds in its environment. The names and values are torchrun's; see its
// documentation, "Environment Variables" (https://pytorch.org/docs/stable/elastic/run.html).
#pragma once
#include <map>
#include <string>
#include <vector>

#include "rendezvous/round.h"

namespace ddprun {

using Environment = std::map<std::string, std::string>;

// What all rounds of the job share.
struct JobIdentity {
  std::string run_id;
  int max_restarts = 0;
  std::string cookie = {};  // job_cookie.h
};

// The variables that ddprun sets. `inherited` decides where torchrun keeps a value that is there already
// (OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING).
Environment worker_variables(const JobIdentity& job, const Round& round, const RoundNode& node, int local_rank,
                             const std::string& error_file, const Environment& inherited);

// NAME=value strings of `inherited` with `own` over it.
std::vector<std::string> merged(const Environment& inherited, const Environment& own);

}  // namespace ddprun
