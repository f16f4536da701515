// Starts ddprun for a job, as our child in our terminal: it ends with us, however we end.
#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddprun::launcher {

struct JobProcess {
  pid_t pid = 0;
  Fd fd;  // child_process.h
};

// `stdout_fd` and `stderr_fd` stay the caller's. Signals that we block are not blocked there. Call it from the main
// thread, while there is no other one. Throws Error.
JobProcess start_job_process(const std::string& program, const std::vector<std::string>& argv,
                             const std::vector<std::string>& environment, int stdout_fd, int stderr_fd);

// The exit code of the ended process, 128 + N if signal N killed it. Reaps it.
int exit_code_of(const JobProcess& process);

}  // namespace ddprun::launcher
