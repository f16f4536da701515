// Starts ddprun as a child of a program that calls launch(), waits for it and ends it.
//
// It ends with us: the kernel sends it SIGTERM when the thread that started it ends, and it stops its workers. One at a
// time in a process, from start to end in one thread.
#pragma once
#include <string>
#include <vector>

#include "trainer/ddp/launch/launch_plan.h"

namespace ddprun {

// The first of them that is executable; empty: none.
std::string first_executable(const std::vector<std::string>& candidates);

// Runs it to its end, at most to the time-out plus its grace period plus a second. It shares our stdin, stdout and
// stderr. Throws Error if it cannot be started.
LauncherEnd run_launcher(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                         const LaunchOptions& options);

}  // namespace ddprun
