// Ends this agent after its keeper's death even if its main thread is stuck, for example in a file system that does not
// answer: a separate thread does it, as nothing else in the process runs then.
#pragma once

namespace ddprun::agent {

// Call it once, with all signals blocked. `keeper_fd` stays the caller's.
void watch_keeper_in_thread(int keeper_fd);
// Called by the main thread once it has noticed the death itself and is about to end all children and exit.
void main_has_noticed_keeper_death();

}  // namespace ddprun::agent
