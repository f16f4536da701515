// Exit codes of a worker that rule out a restart; after any other code the ledger decides. ddprun ends with the same
// code.
#pragma once

namespace ddprun {

// A usage error, as in most programs, if it comes before any progress: no restart corrects a command line.
constexpr int kWorkerExitUsage = 2;
// EX_CANTCREAT: the work is done, but some of it could not be written. A restart would do all of it again.
constexpr int kWorkerExitUnsaved = 73;

}  // namespace ddprun
