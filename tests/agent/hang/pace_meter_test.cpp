#include "agent/hang/pace_meter.h"

#include "tests/support/test.h"

namespace {

Progress after_steps(std::uint64_t steps, ddprun_beat now = DDPRUN_BEAT_COMPUTE) {
  const auto count = static_cast<std::int64_t>(steps);
  Progress out{.steps_done = steps};
  out.beat = Beat{.kind = now, .load = count * 2ms, .compute = count * 5ms, .wait = count * 1ms};
  return out;
}

using Windows = std::vector<rendezvous::Pace>;

// 0: there is no window.
std::uint64_t steps_of(const Windows& windows) { return windows.empty() ? 0 : windows.front().steps; }

}  // namespace

TEST_CASE("a worker's window has five steps and 0.6 s at least, and begins where the last one ended", "[hang]") {
  PaceMeter meter;
  const TimePoint begin(100s);
  meter.begin_round(1, begin);
  CHECK(meter.next_look() == begin + 100ms);
  CHECK(meter.look({{0, after_steps(4)}, {1, after_steps(5)}}, begin + 500ms).empty());
  CHECK(meter.next_look() == begin + 600ms);
  CHECK(meter.look({{0, after_steps(4)}, {1, after_steps(5)}}, begin + 600ms) ==
        Windows{{1, 5, 10'000, 25'000, 5'000}});
  CHECK(meter.look({{0, after_steps(7)}, {1, after_steps(11)}}, begin + 700ms) ==
        Windows{{0, 7, 14'000, 35'000, 7'000}});
  CHECK(meter.look({{1, after_steps(15)}}, begin + 1100ms).empty());
  CHECK(meter.look({{1, after_steps(15)}}, begin + 1200ms) == Windows{{1, 10, 20'000, 50'000, 10'000}});
  meter.begin_round(1, begin + 7s);
  CHECK(steps_of(meter.look({{1, after_steps(8)}}, begin + 9s)) == 8);
}

TEST_CASE("a window ends in the part of a step in which it began, or two steps later", "[hang]") {
  PaceMeter meter;
  const TimePoint begin(100s);
  meter.begin_round(1, begin);
  const auto look = [&](std::uint64_t steps, ddprun_beat now, Duration at) {
    return steps_of(meter.look({{0, after_steps(steps, now)}}, begin + at));
  };
  CHECK(look(5, DDPRUN_BEAT_WAIT, 1s) == 5);
  CHECK(look(10, DDPRUN_BEAT_COMPUTE, 2s) == 0);
  CHECK(look(11, DDPRUN_BEAT_WAIT, 3s) == 6);
  CHECK(look(17, DDPRUN_BEAT_LOAD, 4s) == 0);
  CHECK(look(18, DDPRUN_BEAT_LOAD, 5s) == 7);  // the part was not seen again
}

TEST_CASE("the coordinator gets 500 messages a second at most, however many nodes there are", "[hang]") {
  PaceMeter meter;
  const TimePoint begin(100s);
  for (const int nodes : {1, 10, 100, 1000, 8000}) {
    meter.begin_round(nodes, begin);
    CHECK(nodes / std::chrono::duration<double>(meter.next_look() - begin).count() <= 500);
  }
  CHECK(meter.look({{0, after_steps(100)}}, begin + 15s).empty());
  CHECK(meter.look({{0, after_steps(100)}}, begin + 16s).size() == 1);
}

TEST_CASE("workers without beats have no pace, and times that go back are none", "[hang]") {
  PaceMeter meter;
  meter.begin_round(1, TimePoint(100s));
  CHECK(meter.look({{0, Progress{.steps_done = 100}}}, TimePoint(102s)).empty());
  Progress first = after_steps(20), second = after_steps(40), third = after_steps(12);
  second.beat->compute = 1ms;
  CHECK(meter.look({{0, first}}, TimePoint(104s)).size() == 1);
  CHECK(meter.look({{0, second}}, TimePoint(106s)) == Windows{{0, 20, 40'000, 0, 20'000}});
  CHECK(steps_of(meter.look({{0, third}}, TimePoint(108s))) == 12);
}
