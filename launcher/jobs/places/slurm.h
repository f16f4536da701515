// Talks to Slurm by its own programs. Each but sbatch is given 30 s, then it is ended: slurmctld does not answer.
//
// Edge: runs processes, decides nothing. Errors are `Error`: a program that is missing, what Slurm itself said.
#pragma once
#include <string>
#include <vector>

#include "launcher/jobs/places/place_state.h"
#include "launcher/jobs/places/submission.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {

// Slurm's id of the new job: "1234", or "1234;cluster" where sbatch names one. All functions below take it, and throw
// for any other text without asking Slurm: an empty id would mean all jobs. Throws SubmissionUnclear where Slurm may
// have the job, and Error where it has not.
std::string submit_to_slurm(const std::string& script_file, const SubmissionPatience& patience = {});

PlaceState slurm_job_state(const std::string& job_id);
// Of all these jobs within one limit of 30 s.
PlaceAnswers slurm_job_states(const std::vector<std::string>& job_ids);

// The job gets SIGTERM and has at least `grace` to save, then it is ended; it does not come back. Blocks for as long
// only where Slurm's own time for that (KillWait) is shorter than `grace`. A job that has ended stays as it is.
void cancel_slurm_job(const std::string& job_id, Duration grace);

}  // namespace ddprun::launcher
