#include "agent/process/other_process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/test.h"

namespace {

pid_t waiting_process() {
  const pid_t pid = fork();
  if (pid == 0)
    for (;;) pause();
  return pid;
}

}  // namespace

TEST_CASE("a process is known by a pidfd, or by its start: it is signalled, and its end is awaited",
          "[other_process]") {
  const bool by_pidfd = GENERATE(true, false);
  const pid_t pid = waiting_process();
  const OtherProcess process(pid, by_pidfd);
  REQUIRE(process);
  process.await_end(std::chrono::steady_clock::now());  // returns, as it runs
  CHECK(process.signal(0));
  CHECK(process.signal(SIGKILL));
  process.await_end(std::chrono::steady_clock::now() + 10s);
  CHECK(waitpid(pid, nullptr, WNOHANG) == pid);
  CHECK_FALSE(process.signal(SIGKILL));
  CHECK_FALSE(OtherProcess(pid, by_pidfd));
}
