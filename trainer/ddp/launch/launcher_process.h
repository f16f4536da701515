// ddprun as a child of a program that calls launch(): started, waited for, ended.
//
// It dies with us: the kernel sends it SIGTERM when the thread that started it ends, and it stops its workers. One at
// a time in a process, from start to end in one thread.
#pragma once
#include <string>
#include <vector>

#include "trainer/ddp/launch/launch_plan.h"

namespace ddprun {

// The first of them that may be executed; empty: none.
std::string first_program(const std::vector<std::string>& places);

// Runs it to its end, or to the time-out and a second more than its grace. Its stdin, stdout and stderr are ours. Error
// where it cannot be started.
LauncherEnd run_launcher(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                         const LaunchOptions& options);

}  // namespace ddprun
