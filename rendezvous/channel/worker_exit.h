// What a worker's exit code says of a restart; any other code leaves that to the ledger. ddprun ends with the same
// code.
#pragma once

namespace ddprun {

// A usage error, as of most programs, where it comes before any progress: no restart mends a command line.
constexpr int kWorkerUsage = 2;
// EX_CANTCREAT: the work is done, but something of it could not be kept. A restart would do all of it again.
constexpr int kWorkerFinal = 73;

}  // namespace ddprun
