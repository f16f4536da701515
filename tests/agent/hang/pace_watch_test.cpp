#include "agent/hang/pace_watch.h"

#include "tests/support/test.h"

TEST_CASE("the pace of the workers that run is told while their round does, if anybody wants it", "[hang]") {
  asio::io_context io;
  std::optional<int> round = 1;
  std::map<int, pid_t> running{{0, 1}, {2, 1}};
  std::uint64_t steps = 0;
  std::vector<int> told;
  WorkersSeen workers{[&] { return running; }, {}, {}, {}};
  workers.progress = [&](int) { return Progress{.steps_done = steps += 9, .beat = Beat{}}; };
  const PaceWatch::Hooks hooks{[&] { return round; },
                               [&](const std::vector<Pace>& windows) {
                                 for (const Pace& window : windows) told.push_back(window.rank);
                               }};
  PaceWatch off(io, false, workers, hooks), watch(io, true, workers, hooks);
  off.begin_round(1);
  io.poll();
  CHECK(io.stopped());
  watch.begin_round(1);
  CHECK(steps == 0);  // a window takes its time
  CHECK(eventually([&] { return io.restart(), io.poll(), !told.empty(); }, 20s));
  CHECK(told == std::vector{0, 2});
  round.reset();
  const std::uint64_t seen = steps;
  io.restart();
  io.run_for(20s);
  CHECK(io.stopped());
  CHECK(steps == seen);
}
