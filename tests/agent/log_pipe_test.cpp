#include "agent/log_pipe.h"

#include <poll.h>

#include "tests/support/catch.h"

using namespace ddprun;

namespace {

// Whether somebody may still read what is written there.
bool has_reader(const Fd& pipe) {
  pollfd state{pipe.get(), 0, 0};
  return poll(&state, 1, 0) == 0;
}

}  // namespace

TEST_CASE("the thread of the logs has let go of everything when they are gone", "[log_pipe]") {
  for (int i = 0; i < 50; ++i) {
    Fd pipe;
    {
      LogPipes logs;
      pipe = logs.open({.console_fd = -1});
      REQUIRE(has_reader(pipe));
    }
    REQUIRE_FALSE(has_reader(pipe));
  }
}
