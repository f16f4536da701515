// (job, seat, local rank) → a worker's environment. The names and values are torchrun's; see its
// documentation, "Environment Variables" (https://pytorch.org/docs/stable/elastic/run.html).
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// Where a worker lets us read its record of its collectives: WorkerGroup::record_path().
constexpr const char* kRecordVariable = "DDPRUN_RECORD";

using Environment = std::map<std::string, std::string>;

// The same in all rounds of the job.
struct JobIdentity {
  std::string run_id;
  int max_restarts = 0;
  std::string cookie = {};  // job_cookie.h
  std::string signals_to_handle = "SIGTERM,SIGINT,SIGHUP,SIGQUIT";
  std::string preempt_signals = {};     // numbers, "15,10": those that announce a preemption
  std::optional<int> omp_threads = {};  // empty: as inherited, else 1 if several workers share the node
  std::string interface = {};           // for gloo's and NCCL's own sockets; empty: they choose
  bool virtual_local_rank = false;      // every worker is local rank 0 and sees one device only
  Environment extra = {};               // set by the user; our own variables win
};

// The variables that ddprun sets. `inherited` is used where torchrun keeps an existing value
// (OMP_NUM_THREADS, TORCH_NCCL_ASYNC_ERROR_HANDLING).
Environment worker_variables(const JobIdentity& job, const rendezvous::Seat& seat, int local_rank,
                             const std::string& error_file, const Environment& inherited);

// Those of them that are the same for all workers of a node in a round; and the others, which win.
Environment round_variables(const JobIdentity& job, const rendezvous::Seat& seat, const Environment& inherited);
Environment rank_variables(const JobIdentity& job, const rendezvous::Seat& seat, int local_rank,
                           const std::string& error_file, const Environment& inherited);

// What those have in common that are the same for all workers in all rounds: for a template of workers.
Environment common_variables(const JobIdentity& job, int workers, const Environment& inherited);

// The variable that lists the devices: HIP_VISIBLE_DEVICES if it is set, as ROCm reads it first, else
// CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES (Slurm's for AMD) or ZE_AFFINITY_MASK (Intel).
const char* devices_variable(const Environment& inherited);

// The device that a worker with a virtual local rank sees: the entry of that variable, or the number itself if none is
// set, or if it is ROCR's: then HIP_VISIBLE_DEVICES takes the number, which counts among those that ROCR leaves. An
// empty list has one entry, the empty one, as under torchrun. Nothing if the list is too short.
std::optional<std::string> virtual_device(const Environment& inherited, int local_rank);

// torchrun's only macro: every ${local_rank} in an argument becomes the number; other ${...} stay.
std::vector<std::string> with_local_rank(std::vector<std::string> arguments, int local_rank);

// NAME=value strings of both, by name; `own` wins.
std::vector<std::string> merged(const Environment& inherited, const Environment& own);
std::vector<std::string> entries_of(const Environment& variables);  // the same of one
// Those of `entries`, which are by name, that have none of these names.
std::vector<std::string> without(std::vector<std::string> entries, const Environment& names);

}  // namespace ddprun::agent
