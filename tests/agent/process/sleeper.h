// A process that sleeps until it is killed, and goes with the test. With `with_child`, a child of it does the same.
#pragma once
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <optional>

#include "tests/support/catch.h"

namespace ddprun::test {

struct Sleeper {
  explicit Sleeper(bool with_child = false, const char* name = "sleeper") {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) sleep_with(with_child, name, ends[1]);
    close(ends[1]);
    REQUIRE(read(ends[0], &child, sizeof child) == sizeof child);
    close(ends[0]);
  }
  ~Sleeper() {
    if (child > 0) ::kill(child, SIGKILL);
    end();
  }
  Sleeper(const Sleeper&) = delete;
  Sleeper& operator=(const Sleeper&) = delete;
  [[noreturn]] static void sleep_with(bool with_child, const char* name, int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_NAME, name);
    pid_t child = with_child ? fork() : -1;
    if (child != 0 && write(out, &child, sizeof child) < 0) _exit(1);
    if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) pause();
  }
  bool has_ended() {
    int value = 0;
    if (!status && waitpid(pid, &value, WNOHANG) == pid) status = value;
    return status.has_value();
  }
  void end() {
    if (status) return;
    ::kill(pid, SIGKILL);
    waitpid(pid, &status.emplace(), 0);
  }
  pid_t pid = 0, child = 0;
  std::optional<int> status = {};
};

}  // namespace ddprun::test
