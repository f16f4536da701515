#include "agent/hang/hang_watch.h"

#include "tests/support/test.h"

namespace {

// One worker whose time is simulated: reports are seen when the watch looks.
struct Watched {
  explicit Watched(HangLimits limits = {}, bool beats = true, const LearnedTimes& learned = {})
      : watch(std::move(limits)), beats(beats) {
    watch.begin_round(1, 4, learned, now);
  }
  void begin_round(int world_size) {
    watch.begin_round(1, world_size, {}, now);
    sight = {};
    report(Activity::start);
  }
  void report(Activity activity) {
    sight.activity = activity;
    sight.at = now;
  }
  // True as soon as it is overdue.
  bool pass(Duration time) {
    const TimePoint until = now + time;
    while (watch.next_look() <= until) {
      now = std::max(now, watch.next_look());
      look();
      if (watch.any_overdue()) return true;
    }
    now = until;
    return false;
  }
  void look() {
    WorkerSight seen = sight;
    seen.collective = "grads";
    seen.beats = beats;
    seen.starved = std::chrono::duration_cast<Duration>(starved_share * (now - last_look));
    last_look = now;
    watch.look({{0, seen}}, now);
  }
  // In which it is not overdue.
  void spend(Activity activity, Duration time) {
    report(activity);
    REQUIRE_FALSE(pass(time));
  }
  void step(Duration load, Duration compute, Duration wait) {
    spend(Activity::load, load);
    spend(Activity::compute, compute);
    spend(Activity::wait, wait);
    sight.step = ++sight.steps_done;
    sight.in_steps += load + compute + wait;
  }
  void train(int steps, Duration load, Duration compute, Duration wait) {
    for (int i = 0; i < steps; ++i) step(load, compute, wait);
  }
  // How long it stands still there, until that is found.
  Duration found_after(Activity activity) {
    report(activity);
    const TimePoint from = now;
    REQUIRE(pass(1h));
    return now - from;
  }

  TimePoint now = TimePoint(100s);
  HangWatch watch;
  WorkerSight sight;
  bool beats;
  double starved_share = 0;  // of the time between two looks
  TimePoint last_look = now;
};

HangLimits by_hand(Activity activity, Duration time) {
  HangLimits limits;
  limits.named[activity] = {.time = time};
  return limits;
}

}  // namespace

TEST_CASE("after ten steps a worker that stands still is found in two seconds, or three steps", "[hang]") {
  const Duration step = GENERATE(Duration(10ms), Duration(200ms), Duration(5s));
  Watched job;
  job.train(12, step / 10, step / 2, step * 4 / 10);
  const Duration found = job.found_after(Activity::compute);
  CHECK(found >= 2s);
  CHECK(found <= std::max<Duration>(2s, step * 31 / 10));
}

TEST_CASE("before ten steps only ten minutes are too long", "[hang]") {
  Watched job;
  job.spend(Activity::start, 60s);
  job.train(5, 5ms, 50ms, 5ms);
  CHECK(job.found_after(Activity::compute) == 10min);
}

TEST_CASE("steps with ten times their usual length now and then alarm nobody", "[hang]") {
  std::mt19937 random(1);
  Watched job;
  job.spend(Activity::start, 60s);  // the first step
  for (int i = 0; i < 6000; ++i) {
    const int times = random() % 20 == 0 ? 10 : 1;
    job.step(random() % 40 * times * 1ms, random() % 100 * times * 1ms, random() % 20 * times * 1ms);
    if (i % 500 != 499) continue;
    job.spend(Activity::evaluate, 15s);
    job.spend(Activity::save, 8s);
  }
}

TEST_CASE("a slow job learns what its steps take at most", "[hang]") {
  Watched job;
  for (int i = 0; i < 40; ++i) job.step(10ms, i % 8 == 0 ? 2500ms : 1s, 10ms);
  CHECK(*job.watch.median_step() < 1200ms);
  const Duration found = job.found_after(Activity::compute);
  CHECK(found > 4s);  // twice the longest, less what lies between two looks
  CHECK(found <= 5s);
}

TEST_CASE("the pace that people are told is that of the round's own steps", "[hang]") {
  Watched job;
  job.train(40, 10ms, 1s, 10ms);
  CHECK(*job.watch.recent_step() < 1200ms);
  job.begin_round(2);
  CHECK_FALSE(job.watch.recent_step());
  job.train(4, 10ms, 3s, 10ms);
  CHECK(*job.watch.recent_step() > 2800ms);
  CHECK(*job.watch.median_step() < 1200ms);
}

TEST_CASE("a save may take five times what one took before", "[hang]") {
  Watched job;
  job.train(12, 5ms, 50ms, 5ms);
  job.spend(Activity::save, 9min);
  job.step(5ms, 50ms, 5ms);
  const Duration found = job.found_after(Activity::save);
  CHECK(found > 44min);
  CHECK(found <= 45min);
}

TEST_CASE("limits by hand count without beats, too, but never before a first report", "[hang]") {
  Watched silent(by_hand(Activity::start, 30s), false);  // has never reported anything
  CHECK_FALSE(silent.pass(1h));
  Watched without({}, false);
  without.spend(Activity::compute, 24h);

  Watched job(by_hand(Activity::compute, 30s), false);
  CHECK(job.found_after(Activity::compute) == 30s);
}

TEST_CASE("where the limit is off a worker is found all the same, and has all the time", "[hang]") {
  HangLimits limits = by_hand(Activity::load, 5s);
  limits.all.off = true;
  Watched job(limits);
  job.train(12, 5ms, 50ms, 5ms);
  CHECK(job.found_after(Activity::compute) < 3s);
  CHECK_FALSE(job.watch.patience(0, false));
  CHECK(job.watch.age(0) >= 2s);
  CHECK(job.found_after(Activity::load) == 5s);
  CHECK(job.watch.patience(0, false) == 5s);
}

TEST_CASE("a program's own phases end it as soon as it is late, inferred ones when it costs more than a restart",
          "[hang]") {
  const bool inferred = GENERATE(false, true);
  const bool saves = GENERATE(true, false);
  Watched job;
  job.sight.inferred = inferred;
  job.spend(Activity::start, 10s);
  for (int minute = 0; minute < 5; ++minute) {
    job.train(600, 5ms, 90ms, 5ms);
    if (saves) job.spend(Activity::save, 1s);
  }
  job.train(12, 5ms, 90ms, 5ms);
  CHECK(job.found_after(Activity::compute) < 3s);
  const Duration patience = job.watch.patience(0, false).value();
  if (!inferred) CHECK(patience < 3s);
  if (inferred && saves) CHECK(patience == 60s);
  if (inferred && !saves) CHECK((patience > 5min && patience < 6min));
  CHECK(job.watch.patience(0, true) == 10 * patience);
  CHECK_FALSE(job.watch.patience(1, false));  // there is none
}

TEST_CASE("a reported save or evaluation that takes longer than others is ended when it costs more than a restart",
          "[hang]") {
  const Activity activity = GENERATE(Activity::save, Activity::evaluate);
  const bool by_user = GENERATE(false, true);
  Watched job(by_user ? by_hand(activity, 40s) : HangLimits{});
  job.train(12, 5ms, 90ms, 5ms);
  job.spend(Activity::save, 1s);
  job.spend(Activity::evaluate, 1s);
  job.train(1200, 5ms, 90ms, 5ms);
  CHECK(job.found_after(activity) == (by_user ? 40s : 30s));
  const Duration patience = job.watch.patience(0, false).value();
  if (by_user) CHECK(patience == 40s);
  if (!by_user) CHECK((patience > 110s && patience < 130s));  // what was done since the save
}

TEST_CASE("what a restart loses does not grow while a hung worker waits for a processor, or nobody looks", "[hang]") {
  const bool starved = GENERATE(true, false);
  Watched job;
  job.sight.inferred = true;
  job.train(12, 5ms, 90ms, 5ms);
  job.starved_share = starved ? 0.75 : 0;
  job.report(Activity::compute);
  if (!starved) job.now += 20min;
  for (int i = 0; i < 2000; ++i) {
    job.now += 250ms;
    job.look();
  }
  CHECK(job.watch.age(0) > 60s);
  CHECK(job.watch.patience(0, false) == 60s);
}

TEST_CASE("a limit by hand counts for inferred phases as it is", "[hang]") {
  Watched job(by_hand(Activity::compute, 5s));
  job.sight.inferred = true;
  job.train(12, 5ms, 90ms, 5ms);
  CHECK(job.found_after(Activity::compute) == 5s);
  CHECK(job.watch.patience(0, false) == 5s);
}

TEST_CASE("what is only seen is named and never ended, whatever the limit", "[hang]") {
  Watched job(by_hand(Activity::compute, 5s));
  job.sight.inferred = job.sight.only_seen = true;
  job.train(12, 5ms, 90ms, 5ms);
  CHECK(job.found_after(Activity::compute) == 5s);
  CHECK_FALSE(job.watch.patience(0, false));
}

TEST_CASE("a worker that waited for a processor is never younger than now", "[hang]") {
  Watched job;
  job.train(12, 5ms, 90ms, 5ms);
  job.starved_share = 1;
  job.report(Activity::compute);
  for (int i = 0; i < 8; ++i) {
    job.now += 10ms;
    job.look();
    CHECK(job.watch.standings().front().age >= 0s);
  }
}

TEST_CASE("time in which nobody looked counts for nobody", "[hang]") {
  Watched job;
  job.train(12, 5ms, 50ms, 5ms);
  job.spend(Activity::compute, 1500ms);
  job.now += 20min;  // a suspended machine
  job.look();
  CHECK_FALSE(job.watch.any_overdue());
  CHECK_FALSE(job.pass(1900ms));
  CHECK(job.pass(200ms));
  job.watch.forgive(job.now);
  CHECK_FALSE(job.watch.any_overdue());
  CHECK_FALSE(job.pass(1900ms));
}

TEST_CASE("what was learned stays in the next round, and in the next start", "[hang]") {
  Watched job;
  job.spend(Activity::start, 2min);
  job.train(20, 5ms, 50ms, 5ms);
  job.begin_round(4);
  CHECK_FALSE(job.pass(9min));
  job.step(5ms, 50ms, 5ms);
  CHECK(job.found_after(Activity::compute) == 2s);

  Watched other({}, true, job.watch.learned());
  other.step(5ms, 50ms, 5ms);
  CHECK(other.found_after(Activity::compute) == 2s);
}

TEST_CASE("what others have learned does not replace what this node has learned itself", "[hang]") {
  Watched job;
  job.train(20, 5ms, 2s, 5ms);
  job.watch.begin_round(1, 4, {.world_size = 4, .steps = 100, .step = 1ms}, job.now);
  job.sight = {};
  job.step(5ms, 2s, 5ms);
  CHECK(job.found_after(Activity::compute) == 6s);
}

TEST_CASE("half the ranks may take twice the time, until they have shown what they take", "[hang]") {
  Watched job;
  job.train(20, 0s, 2s, 0s);
  const Duration before = *job.watch.limit_of(Activity::compute, true);
  job.begin_round(2);
  CHECK(*job.watch.limit_of(Activity::compute, true) == 2 * before);
  job.step(0s, 4s, 0s);
  CHECK_FALSE(job.watch.news(job.now));  // of which world?
  job.begin_round(4);
  CHECK(*job.watch.limit_of(Activity::compute, true) == before);
  job.begin_round(8);
  CHECK(*job.watch.limit_of(Activity::compute, true) == before);
}

TEST_CASE("what is learned is told after the warm-up, and again when it has grown by half", "[hang]") {
  Watched job;
  CHECK_FALSE(job.watch.news(job.now));
  job.train(20, 0s, 1s, 0s);
  const auto first = job.watch.news(job.now);
  REQUIRE(first);
  CHECK(first->world_size == 4);
  CHECK(first->steps >= 19);
  CHECK(first->step == 1s);
  CHECK(first->save == 0s);
  CHECK_FALSE(job.watch.news(job.now));
  CHECK_FALSE(job.watch.news(job.now + 10s));
  job.spend(Activity::save, 3s);
  job.step(0s, 1s, 0s);
  CHECK_FALSE(job.watch.news(job.now));  // ten seconds have not passed
  const auto second = job.watch.news(job.now + 20s);
  REQUIRE(second);
  CHECK(second->save >= 2900ms);
  job.begin_round(4);
  job.train(12, 0s, 1s, 0s);
  CHECK(job.watch.news(job.now));  // another coordinator may not know it
}

TEST_CASE("what an earlier start has learned does not count for steps that take much longer", "[hang]") {
  const LearnedTimes learned{.world_size = 4, .steps = 1000, .step = 50ms, .compute = 40ms};
  Watched job({}, true, learned);
  job.spend(Activity::start, 20s);
  job.sight.step = ++job.sight.steps_done;
  job.sight.in_steps = 20s;
  CHECK(job.found_after(Activity::compute) > 9min);
}

TEST_CASE("what others have seen to take longer counts for saves, evaluations and starts", "[hang]") {
  Watched job;
  job.train(20, 5ms, 50ms, 5ms);
  job.spend(Activity::save, 300ms);
  job.step(5ms, 300ms, 5ms);
  CHECK(*job.watch.limit_of(Activity::save, true) == 30s);
  job.watch.begin_round(1, 4, {.world_size = 4, .steps = 20, .save = 40s}, job.now);
  CHECK(*job.watch.limit_of(Activity::save, true) == 200s);
}

TEST_CASE("absurd times from elsewhere do no harm", "[hang]") {
  const LearnedTimes learned{.world_size = 1 << 28, .steps = 1000, .step = 40s, .save = std::chrono::hours(1 << 20)};
  Watched job({}, true, learned);
  job.watch.begin_round(1, 1, learned, job.now);
  for (const Activity activity : {Activity::compute, Activity::save}) {
    CHECK(*job.watch.limit_of(activity, true) > 1h);
    CHECK(*job.watch.limit_of(activity, true) < std::chrono::hours(24 * 365));
  }
}

TEST_CASE("time in which a debugger has a worker counts for nobody", "[hang]") {
  Watched job;
  job.train(20, 5ms, 50ms, 5ms);
  job.report(Activity::compute);
  job.sight.traced = true;
  REQUIRE_FALSE(job.pass(1h));
  job.sight.traced = false;
  REQUIRE_FALSE(job.pass(1s));
  CHECK_FALSE(job.pass(500ms));
  CHECK(job.pass(1h));
}

TEST_CASE("time for which a worker waits for a processor counts for nobody, up to three quarters of it", "[hang]") {
  const auto [share, least, most] = GENERATE(table<double, Duration, Duration>({
      {0.5, 3500ms, 4500ms}, {0.75, 7s, 9s}, {1e6, 7s, 9s}  // of many threads: one that hangs is found all the same
  }));
  Watched job;
  job.train(20, 5ms, 50ms, 5ms);
  job.starved_share = share;
  const Duration found = job.found_after(Activity::compute);
  CHECK(found >= least);
  CHECK(found <= most);
}
