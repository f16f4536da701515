// The meaning of ddprun's exit codes, for schedulers. The README has the same table.
#pragma once

namespace ddprun::launcher {

enum ExitCode : int {
  kSuccess = 0,
  kWorkerFailed = 1,
  kUsage = 2,
  kRendezvousImpossible = 69,  // EX_UNAVAILABLE: no store, no port
  kInternalError = 70,         // EX_SOFTWARE
  kUnsaved = 73,               // EX_CANTCREAT: a worker's work is done, but could not be written; do not start it again
  kRequeue = 75,               // EX_TEMPFAIL: preempted, and nothing is lost: start it again
  kDoNotRequeue = 93,          // no further start would help: do not start it again (NVRx uses the same code)
  kInterrupted = 128,          // plus the signal's number
};

}  // namespace ddprun::launcher
