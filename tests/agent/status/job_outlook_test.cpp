#include "agent/status/job_outlook.h"

#include "tests/support/test.h"

namespace {

std::string told(const StepsDone& steps) {
  const auto outlook = outlook_of(steps);
  return outlook ? in_words(*outlook) : "nothing";
}

std::string time_left(double seconds) { return in_words({.seconds_left = seconds}); }

}  // namespace

TEST_CASE("of a job that tells how many steps it will do, percent and time left are known", "[status]") {
  CHECK(told({.step = 4127, .total_steps = 9000, .steps_per_second = 5.3}) == "45.8 %, 16 min left");
  CHECK(told({.step = 0, .total_steps = 100, .steps_per_second = 2}) == "0 %, 50 s left");
  CHECK(told({.step = 29, .total_steps = 100}) == "29.0 %");  // the pace is not known
  CHECK(told({.step = 50, .total_steps = 100, .steps_per_second = 2, .stands_still = true}) == "50.0 %");
  const auto outlook = outlook_of({.step = 1, .total_steps = 3, .steps_per_second = 2});
  REQUIRE(outlook);
  CHECK(outlook->done_share == Approx(1.0 / 3));
  CHECK(outlook->seconds_left == 1.0);
}

TEST_CASE("without a total, or with a wrong one, nothing is said of what is left", "[status]") {
  CHECK(told({.step = 50, .steps_per_second = 2}) == "nothing");
  CHECK(told({.step = 101, .total_steps = 100, .steps_per_second = 2}) == "nothing");
}

TEST_CASE("100 % is said once all steps are done, and then nothing is left", "[status]") {
  CHECK(told({.step = 9999, .total_steps = 10'000, .steps_per_second = 2}) == "99.9 %, 1 s left");
  CHECK(told({.step = UINT64_MAX - 1, .total_steps = UINT64_MAX}) == "99.9 %");
  CHECK(told({.step = 10'000, .total_steps = 10'000, .steps_per_second = 2}) == "100 %");
}

TEST_CASE("saves and evaluations take of the time that is left", "[status]") {
  const StepsDone steps{.step = 50, .total_steps = 100, .steps_per_second = 1, .time_per_training = 1.5};
  CHECK(told(steps) == "50.0 %, 2 min left");
  CHECK(outlook_of(steps)->seconds_left == 75.0);
}

TEST_CASE("no pace gives a time that nobody can wait for or that is no number", "[status]") {
  for (const double pace : {0.0, -1.0, 1e-300, std::numeric_limits<double>::quiet_NaN()})
    CHECK(told({.step = 50, .total_steps = 100, .steps_per_second = pace}) == "50.0 %");
  CHECK(told({.step = 50, .total_steps = 100, .time_per_training = std::nan("")}) == "50.0 %");
}

TEST_CASE("time left is in words of two units at most, and rounded up", "[status]") {
  CHECK(time_left(0.1) == "0 %, 1 s left");
  CHECK(time_left(59) == "0 %, 59 s left");
  CHECK(time_left(59.2) == "0 %, 1 min left");
  CHECK(time_left(61) == "0 %, 2 min left");
  CHECK(time_left(26 * 60) == "0 %, 26 min left");
  CHECK(time_left(3590) == "0 %, 1 h left");
  CHECK(time_left(7201) == "0 %, 2 h 1 min left");
  CHECK(time_left(86399) == "0 %, 1 d left");
  CHECK(time_left(90001) == "0 %, 1 d 2 h left");
  CHECK(time_left(86400 * 150.5) == "0 %, 151 d left");
}
