#include <sys/wait.h>

#include "agent/link/loop_pulse.h"
#include "agent/process/worker_fence.h"
#include "tests/support/test.h"

TEST_CASE("a loop that runs nothing is seen to stand, from another thread, until it goes on", "[link]") {
  asio::io_context loop;
  LoopPulse pulse(loop);
  CHECK(pulse.stood() == 0s);
  CHECK(eventually([&] { return pulse.stood() > 0s; }, 20s));
  loop.poll();
  CHECK(pulse.stood() == 0s);
}

TEST_CASE("a fence ends the workers that run, and those that are started before it is open again", "[link]") {
  const auto child = [] {
    const pid_t pid = fork();
    while (pid == 0) pause();
    return pid;
  };
  const auto killed = [](pid_t pid) {
    int status = 0;
    return waitpid(pid, &status, 0) == pid && WIFSIGNALED(status);
  };
  WorkerFence fence;
  const pid_t before = child(), reaped = child(), late = child(), after = child();
  for (const pid_t pid : {before, reaped}) fence.add(pid);
  fence.remove(reaped);
  const int first = fence.close(), second = fence.close();
  fence.end_all();
  CHECK(killed(before));
  fence.open(first);
  fence.add(late);
  CHECK(killed(late));
  fence.open(second);
  fence.add(after);
  for (const pid_t pid : {reaped, after}) {
    CHECK(waitpid(pid, nullptr, WNOHANG) == 0);
    kill(pid, SIGKILL);
    CHECK(killed(pid));
  }
}
