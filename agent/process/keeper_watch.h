// Ends this agent after its keeper's death even where its main thread is stuck, as in a file system that does not
// answer: a thread of its own, for nothing else in a process runs then.
#pragma once

namespace ddprun::agent {

// Once, with all signals blocked. `keeper_pidfd` stays the caller's.
void watch_keeper_beside_main(int keeper_pidfd);
// By the main thread, once it has noticed by itself and is about to end all children and leave.
void main_has_noticed_keepers_death();

}  // namespace ddprun::agent
