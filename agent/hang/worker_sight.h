// What a worker's page says about it, for HangWatch.
#pragma once
#include <sys/types.h>

#include "agent/channel/channel_page.h"
#include "agent/hang/hang_watch.h"

namespace ddprun::agent {

WorkerSight sight_of(const Progress& progress);

// Whether a debugger, strace or the like has it; our own look at its stacks is none.
bool is_traced(pid_t worker);

// What /proc adds for a worker that stands still: whether a signal stopped it, a debugger has it, the kernel holds it.
void add_process_state(pid_t worker, rendezvous::Standing& standing);

}  // namespace ddprun::agent
