// Ends what an earlier run of the job on this node left behind, if both its keeper and its agent were killed by
// SIGKILL.
#pragma once

#include "agent/process/job_cookie.h"

namespace ddprun::agent {

// Sends SIGKILL to processes of the same job and pid namespace whose agent is dead, until a scan finds none, and waits
// until they have ended (5 s at most). Returns how many. Processes that cleared their environment are not found. Reads
// /proc/*/environ, some 20 us per process, so use it only for a job that has a name.
int end_leftovers(const JobCookie& own);

}  // namespace ddprun::agent
