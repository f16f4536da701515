#include "agent/hang/pace_meter.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

Progress after_steps(std::uint64_t steps) {
  const auto count = static_cast<std::int64_t>(steps);
  Progress out{.steps_done = steps};
  out.beat = Beat{.load = count * 2ms, .compute = count * 5ms, .wait = count * 1ms};
  return out;
}

}  // namespace

TEST_CASE("a worker's window has ten steps at least, and begins where the last one ended", "[hang]") {
  PaceMeter meter;
  const TimePoint begin(100s);
  meter.begin_round(begin);
  CHECK(meter.next_look() == begin + 2s);
  CHECK(meter.look({{0, after_steps(9)}, {1, after_steps(10)}}, begin + 2s) ==
        std::vector<rendezvous::Pace>{{1, 10, 20'000, 50'000, 10'000}});
  CHECK(meter.next_look() == begin + 4s);
  CHECK(meter.look({{0, after_steps(12)}, {1, after_steps(19)}}, begin + 4s) ==
        std::vector<rendezvous::Pace>{{0, 12, 24'000, 60'000, 12'000}});
  CHECK(meter.look({{1, after_steps(30)}}, begin + 6s) ==
        std::vector<rendezvous::Pace>{{1, 20, 40'000, 100'000, 20'000}});
  meter.begin_round(begin + 7s);
  CHECK(meter.look({{1, after_steps(15)}}, begin + 9s).front().steps == 15);
}

TEST_CASE("workers without beats have no pace, and times that go back are none", "[hang]") {
  PaceMeter meter;
  meter.begin_round(TimePoint(100s));
  CHECK(meter.look({{0, Progress{.steps_done = 100}}}, TimePoint(102s)).empty());
  Progress first = after_steps(20), second = after_steps(40), third = after_steps(12);
  second.beat->compute = 1ms;
  CHECK(meter.look({{0, first}}, TimePoint(104s)).size() == 1);
  CHECK(meter.look({{0, second}}, TimePoint(106s)) == std::vector<rendezvous::Pace>{{0, 20, 40'000, 0, 20'000}});
  CHECK(meter.look({{0, third}}, TimePoint(108s)).front().steps == 12);
}
