// How long a process' threads wait for a processor that others have: time in which it stands still through no fault of
// its own. From /proc/PID/task/TID/schedstat (Documentation/scheduler/sched-stats.rst); none where the kernel has no
// such file.
#pragma once
#include <sys/types.h>

#include <map>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

class ProcessorWait {
 public:
  // Of the thread that has waited longest since the last call for this process. Nothing at the first call.
  Duration since_last_look(pid_t process);
  void forget(pid_t process) { waited_.erase(process); }

 private:
  std::map<pid_t, std::map<pid_t, Duration>> waited_;  // in all, by process and thread
};

}  // namespace ddprun::agent
