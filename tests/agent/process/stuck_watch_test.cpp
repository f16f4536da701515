#include "agent/process/stuck_watch.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

const TimePoint t0{};

}  // namespace

TEST_CASE("a worker that sleeps in the kernel at every look is told once the limit is over", "[stuck_watch]") {
  StuckWatch watch(10s);
  CHECK_FALSE(watch.update({}, t0));
  CHECK_FALSE(watch.update({1, 2}, t0 + 1s));
  CHECK_FALSE(watch.update({1, 2}, t0 + 10s));
  CHECK(watch.update({2}, t0 + 11s) == 2);
}

TEST_CASE("a look at which it is awake begins anew", "[stuck_watch]") {
  StuckWatch watch(10s);
  watch.update({1}, t0);
  watch.update({}, t0 + 9s);
  CHECK_FALSE(watch.update({1}, t0 + 10s));
  CHECK_FALSE(watch.update({1}, t0 + 19s));
  CHECK(watch.update({1}, t0 + 20s) == 1);
}

TEST_CASE("looks come often enough for the limit, and not too often", "[stuck_watch]") {
  CHECK(StuckWatch(1h).pause() == 1s);
  CHECK(StuckWatch(2s).pause() == 500ms);
  CHECK(StuckWatch(1ms).pause() == 10ms);
}
