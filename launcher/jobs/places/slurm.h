// Talks to Slurm by its own programs. Each is given 30 s, then it is ended: slurmctld does not answer.
//
// Edge: runs processes, decides nothing. Errors are `Error`: a program that is missing, what Slurm itself said.
#pragma once
#include <string>

#include "launcher/jobs/places/place_state.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// Slurm's id of the new job: "1234", or "1234;cluster" where sbatch names one. All functions below take it.
std::string submit_to_slurm(const std::string& script_file);
// What Slurm would say to it: nothing is submitted. "Job 1 to start at ...".
std::string test_with_slurm(const std::string& script_file);

PlaceState slurm_job_state(const std::string& job_id);

// The job gets SIGTERM and has at least `grace` to save, then it is ended; it does not come back. Blocks for as long
// only where Slurm's own time for that (KillWait) is shorter than `grace`. A job that has ended stays as it is.
void cancel_slurm_job(const std::string& job_id, Duration grace);

}  // namespace ddprun::launcher
