#include "agent/process/process_state.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::test;
using namespace std::chrono_literals;

TEST_CASE("the state of a process is what the kernel shows", "[process_state]") {
  CHECK(process_state(getpid()).letter == 'R');
  CHECK(process_state(0).letter == '?');
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  CHECK(eventually([&] { return process_state(child).letter == 'S'; }, 10s));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("who is still there after SIGKILL is told with the likely cause", "[process_state]") {
  CHECK(
      survival_in_words({'D', "rpc_wait_bit_killable"}) ==
      "the kernel holds it in rpc_wait_bit_killable (state D), as for a driver or a file server that does not answer");
  CHECK(survival_in_words({'D', ""}) ==
        "the kernel holds it (state D), as for a driver or a file server that does not answer");
  CHECK(survival_in_words({'S', ""}) == "it belongs to another user, or the kernel holds it (state S)");
  CHECK(survival_in_words({}) == "the kernel holds it, or it belongs to another user");
}
