// An agent's main thread does nothing as long as this exists; its other threads go on.
#pragma once
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "tests/support/catch.h"

namespace ddprun::test {

struct StandingLoop {
  explicit StandingLoop(pid_t agent) : thread(agent) {
    REQUIRE(ptrace(PTRACE_SEIZE, thread, 0, 0) == 0);
    REQUIRE(ptrace(PTRACE_INTERRUPT, thread, 0, 0) == 0);
    REQUIRE(waitpid(thread, nullptr, __WALL) == thread);
  }
  ~StandingLoop() { ptrace(PTRACE_DETACH, thread, 0, 0); }
  const pid_t thread;
};

}  // namespace ddprun::test
