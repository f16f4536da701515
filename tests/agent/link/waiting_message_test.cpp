#include "agent/link/waiting_message.h"

#include "tests/support/test.h"

TEST_CASE("who waits is told how many nodes and workers are here, and who is missing", "[waiting]") {
  CHECK(waiting_message(Attendance{2, 3, 8, {"node 2"}, 0}, 4) == "2 of 3 nodes, 8 of 12 workers, waiting for node 2");
  CHECK(waiting_message(Attendance{1, 2, 1, {}, 0}, 1) == "1 of 2 nodes, 1 of 2 workers");
  CHECK(waiting_message(Attendance{3, 3, 6, {"gpu-7 (10.0.0.7)"}, 0}, 2) ==
        "3 nodes, 6 workers, waiting for gpu-7 (10.0.0.7)");
  CHECK(waiting_message({}, 4) == "the job has its maximum number of nodes; this one is a spare");
  // Workers to come are not guessed where nodes bring different numbers; of many nodes the first are named.
  CHECK(waiting_message(Attendance{2, 3, 9, {}, 0}, 4) == "2 of 3 nodes, 9 workers");
  CHECK(waiting_message(Attendance{1, 900, 8, {"a", "b", "c", "d", "e", "f", "g", "h"}, 891}, 8) ==
        "1 of 900 nodes, 8 of 7200 workers, waiting for a, b, c, d, e and 894 more");
}

TEST_CASE("a wait is told of within three seconds, and then at growing intervals", "[waiting]") {
  using namespace std::chrono_literals;
  CHECK(next_reminder(0s) <= 3s);
  std::vector<Duration> times;
  for (Duration so_far{}; so_far < 1h; so_far = next_reminder(so_far)) times.push_back(so_far);
  for (std::size_t i = 2; i < times.size(); ++i) CHECK(times[i] - times[i - 1] > times[i - 1] - times[i - 2]);
  CHECK(times.size() < 10);
}
