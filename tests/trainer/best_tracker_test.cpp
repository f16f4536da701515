#include "trainer/loop/best_tracker.h"

#include "tests/support/test.h"
#include "trainer/loop/rate.h"

TEST_CASE("a run ends when so many evaluations in a row were no better than the best", "[best_tracker]") {
  BestTracker tracker(/*higher_is_better=*/true, /*patience=*/2);
  CHECK(tracker.update(1, 0.5).better);
  CHECK_FALSE(tracker.update(2, 0.5).better);  // as good is not better
  CHECK(tracker.update(3, 0.6).better);
  CHECK_FALSE(tracker.update(4, 0.55).stop);
  const BestUpdate last = tracker.update(5, 0.59);
  CHECK_FALSE(last.better);
  CHECK(last.stop);
  CHECK(tracker.has_stopped());
  CHECK(tracker.state().best == 0.6);
  CHECK(tracker.state().best_epoch == 3);
}

TEST_CASE("lower losses are better, and a loss that is not a number never is", "[best_tracker]") {
  BestTracker tracker(/*higher_is_better=*/false, /*patience=*/3);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_FALSE(tracker.update(1, nan).better);
  CHECK(tracker.update(2, 2).better);
  CHECK(tracker.update(3, 1).better);
  CHECK_FALSE(tracker.update(4, nan).better);
  CHECK(tracker.state().best == 1);
}

TEST_CASE("without patience no run ends early, and a resumed tracker goes on counting", "[best_tracker]") {
  BestTracker never(true, 0);
  for (int epoch = 1; epoch < 50; ++epoch) CHECK_FALSE(never.update(epoch, -epoch).stop);
  BestTracker resumed(true, 50);
  resumed.resume(never.state());
  CHECK_FALSE(resumed.update(50, -50).stop);
  CHECK(resumed.update(51, -51).stop);
}

TEST_CASE("the rate warms up in a line, and then follows its schedule over the rest of the run", "[rate]") {
  Options options;
  options.training.epochs = 10;
  options.optimizer.lr = 0.4;
  options.schedule.warmup = 3;
  options.schedule.name = "cosine";
  options.schedule.min_lr = 0.1;
  LrSchedule schedule = make_schedule(options, 100);
  std::vector<double> rates;
  for (int epoch = 0; epoch < 11; ++epoch, schedule.step()) rates.push_back(schedule.lr());
  CHECK(rates[0] == Approx(0.1));
  CHECK(rates[1] == Approx(0.2));
  CHECK(rates[3] == Approx(0.4));
  CHECK(rates[10] == Approx(0.1));
  for (std::size_t i = 4; i <= 10; ++i) CHECK(rates[i] < rates[i - 1]);
}

TEST_CASE("a schedule counts epochs or steps", "[rate]") {
  Options options;
  options.training.epochs = 2;
  options.optimizer.lr = 1;
  options.schedule.name = "linear";
  options.schedule.unit = "step";
  LrSchedule schedule = make_schedule(options, 5);
  for (int step = 0; step < 5; ++step) schedule.step();
  CHECK(schedule.lr() == Approx(0.5));
  options.schedule.unit = "epoch";
  LrSchedule by_epoch = make_schedule(options, 5);
  by_epoch.step();
  CHECK(by_epoch.lr() == Approx(0.5));
  options.schedule.name = "step";
  options.schedule.step_size = 1;
  options.schedule.gamma = 0.25;
  LrSchedule falls = make_schedule(options, 5);
  falls.step();
  CHECK(falls.lr() == Approx(0.25));
}

TEST_CASE("a warm-up that takes the whole run is refused", "[rate]") {
  Options options;
  options.training.epochs = 3;
  options.schedule.warmup = 3;
  CHECK_THROWS_WITH(make_schedule(options, 5),
                    "cannot make the schedule: --warmup is 3 and the run has 3 epochs in all. Warm up for fewer of "
                    "them, or train for longer.");
}
