#include "agent/round/round_sweep.h"

#include "tests/support/test.h"

namespace {

pid_t sleeping_child() {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  for (;;) pause();
}

}  // namespace

TEST_CASE("what a round has left is ended while the loop runs, and then told once", "[round_sweep]") {
  asio::io_context io;
  std::vector<int> swept;
  RoundSweep sweep(io, [&](int round) { swept.push_back(round); });
  sleeping_child();
  sleeping_child();
  sweep.begin(3, nullptr);
  io.run_for(30s);
  CHECK(swept == std::vector{3});
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // both are reaped
}

TEST_CASE("a sweep that was stopped touches nothing that is started later", "[round_sweep]") {
  asio::io_context io;
  bool reported = false;
  RoundSweep sweep(io, [&](int) { reported = true; });
  const pid_t left = sleeping_child();
  sweep.begin(3, nullptr);
  if (!reported) sweep.stop();
  const pid_t next = sleeping_child();
  io.run_for(30s);  // until nothing is due
  CHECK(kill(next, 0) == 0);
  int status = 0;
  CHECK(waitpid(next, &status, WNOHANG) == 0);
  for (const pid_t pid : {left, next}) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
}
