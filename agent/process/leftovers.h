// Ends what an earlier run of the job on this node left behind, should both its keeper and its agent have been
// SIGKILLed.
#pragma once

#include "agent/process/job_cookie.h"

namespace ddprun::agent {

// SIGKILLs processes of the same job and pid namespace whose agent is dead, looks again until there is none, and waits
// until they have ended (5 s at most). Returns how many. What cleared its environment is not found. Reads
// /proc/*/environ, some 20 us per process, so it is worth it only for a job that has a name.
int end_leftovers(const JobCookie& own);

}  // namespace ddprun::agent
