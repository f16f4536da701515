#include "rendezvous/coordination/account/time_account.h"

#include "rendezvous/coordination/account/job_clock.h"
#include "rendezvous/coordination/account/round_spent.h"
#include "tests/support/test.h"

namespace {

const TimePoint t0{};

// A round of 100 s in which ten steps were done, the last of them 3 s before its end.
RoundSpent ten_steps() {
  return {.reports = true,
          .start = 5s,
          .restore = 10s,
          .train = 63s,
          .evaluate = 12s,
          .save = 10s,
          .doing = TimeKind::productive,
          .since_progress = 2s,
          .unfinished = 3s,
          .steps = 10,
          .first_step = 100,
          .last_step = 109};
}

Duration up_to(std::mt19937_64& random, Duration most) {
  return Duration(static_cast<Duration::rep>(random() % static_cast<std::uint64_t>(most.count() + 1)));
}

// Whatever an agent may tell.
RoundSpent any_spent(std::mt19937_64& random) {
  RoundSpent out{.reports = random() % 4 != 0, .doing = kTimeKinds[random() % kTimeKinds.size()].kind};
  for (Duration RoundSpent::*part :
       {&RoundSpent::start, &RoundSpent::restore, &RoundSpent::train, &RoundSpent::evaluate, &RoundSpent::save,
        &RoundSpent::since_progress, &RoundSpent::unfinished})
    out.*part = random() % 3 == 0 ? Duration::zero() : up_to(random, random() % 8 == 0 ? 100'000s : 20s);
  out.steps = random() % 5;
  if (random() % 2) out.first_step = random() % 8 == 0 ? random() : random() % 20;
  if (random() % 2) out.last_step = random() % 8 == 0 ? random() : random() % 20;
  return out;
}

void check_parts(const TimeAccount& account, Duration total) {
  for (const TimeKindName& one : kTimeKinds)
    if (account[one.kind] < Duration::zero()) FAIL(one.name << " is negative");
  if (account.total() != total) FAIL("the parts add up to " << account.total().count() << " ns, not " << total.count());
}

}  // namespace

TEST_CASE("a round's time goes to what its worker has told", "[account]") {
  const TimeAccount well = account_of(ten_steps(), 101s, RoundEnd::well);
  CHECK(well[TimeKind::start] == 5s);
  CHECK(well[TimeKind::restore] == 10s);
  CHECK(well[TimeKind::productive] == 75s);
  CHECK(well[TimeKind::save] == 10s);
  CHECK(well[TimeKind::stop] == 1s);
  CHECK(well.ettr() == Approx(75.0 / 101));
  const TimeAccount running = account_of(ten_steps(), 101s, RoundEnd::running);
  CHECK(running[TimeKind::productive] == 76s);
  CHECK(running.total() == 101s);
}

TEST_CASE("a failure costs the unfinished step, and a hang the time since the last progress", "[account]") {
  const TimeAccount failure = account_of(ten_steps(), 100s, RoundEnd::failure);
  CHECK(failure[TimeKind::productive] == 72s);
  CHECK(failure[TimeKind::lost_work] == 3s);
  const TimeAccount hang = account_of(ten_steps(), 100s, RoundEnd::hang);
  CHECK(hang[TimeKind::hang] == 2s);
  CHECK(hang[TimeKind::lost_work] == 1s);
  CHECK(hang[TimeKind::productive] == 72s);
  RoundSpent saving = ten_steps();
  saving.doing = TimeKind::save;
  saving.unfinished = 0s;
  const TimeAccount in_save = account_of(saving, 100s, RoundEnd::hang);
  CHECK(in_save[TimeKind::save] == 8s);
  CHECK(in_save[TimeKind::productive] == 75s);
}

TEST_CASE("steps that the next round does again are lost work", "[account]") {
  JobAccount job;
  job.add_round(ten_steps(), 100s, RoundEnd::failure);
  CHECK(job.kept == KeptSteps{.last = 109, .steps = 10, .time = 60s});
  RoundSpent next{.reports = true, .start = 5s};
  SECTION("of a round that ends before its first step none is known") {
    job.add_round(next, 5s, RoundEnd::failure);
    CHECK(job.spent[TimeKind::lost_work] == 3s);
    CHECK(job.kept.steps == 10);
  }
  SECTION("the job goes on where it was") {
    next.first_step = 110;
    CHECK(so_far(job, next, 5s)[TimeKind::lost_work] == 3s);
  }
  SECTION("four of ten are done again") {
    next.first_step = 106;
    const TimeAccount now = so_far(job, next, 5s);
    CHECK(now[TimeKind::lost_work] == 27s);
    CHECK(now[TimeKind::productive] == 48s);
    CHECK(now.total() == 105s);
  }
  SECTION("no more than were done") {
    next.first_step = 3;
    CHECK(so_far(job, next, 5s)[TimeKind::lost_work] == 63s);
  }
}

TEST_CASE("a round of which nobody tells is productive once its workers have been started", "[account]") {
  JobClock clock({}, t0);
  clock.round_formed(1, t0 + 10s);
  CHECK(clock.account(t0 + 12s)[TimeKind::start] == 2s);
  clock.workers_run(t0 + 13s);
  clock.round_ended(RoundEnd::failure, t0 + 53s);
  clock.all_stopped(t0 + 58s);
  const TimeAccount spent = clock.account(t0 + 60s);
  CHECK(spent[TimeKind::waiting] == 12s);
  CHECK(spent[TimeKind::start] == 3s);
  CHECK(spent[TimeKind::productive] == 40s);
  CHECK(spent[TimeKind::stop] == 5s);
  CHECK(clock.closed(t0 + 60s).spent == spent);
}

TEST_CASE("of those that tell of a round the lowest group rank counts", "[account]") {
  JobClock clock({}, t0);
  clock.round_formed(1, t0);
  clock.measured(1, 3, {.reports = true, .start = 3s, .train = 97s});
  clock.measured(1, 1, {.reports = true, .start = 1s, .train = 99s});
  clock.measured(1, 2, {.reports = true, .start = 2s, .train = 98s});
  clock.measured(2, 0, {.reports = true, .start = 50s});
  clock.round_ended(RoundEnd::well, t0 + 100s);
  CHECK(clock.account(t0 + 100s)[TimeKind::start] == 1s);
  clock.measured(1, 0, {.reports = true, .start = 4s, .train = 96s});  // late, but before the next round
  CHECK(clock.account(t0 + 100s)[TimeKind::start] == 4s);
}

TEST_CASE("whatever happens, and whatever agents tell, the account adds up to the time that has passed", "[account]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    JobAccount earlier;
    earlier.spent[TimeKind::productive] = up_to(random, 100s);
    const Duration before = earlier.spent.total();
    JobClock clock(earlier, t0);
    TimePoint now = t0;
    int round = 0;
    for (int event = 0; event < 60; ++event) {
      now += up_to(random, random() % 4 == 0 ? 60s : 1s);
      switch (random() % 8) {
        case 0:
          if (!clock.round_since()) clock.round_formed(++round, now);
          break;
        case 1:
          clock.workers_run(now);
          break;
        case 2:
        case 3:
          clock.measured(round - static_cast<int>(random() % 2), static_cast<int>(random() % 3), any_spent(random));
          break;
        case 4:
          clock.round_ended(static_cast<RoundEnd>(1 + random() % 3), now);
          break;
        case 5:
          clock.all_stopped(now);
          break;
        case 6:  // another coordinator
          clock = JobClock(clock.round_since() ? JobAccount{.spent = clock.account(now)} : clock.closed(now), now);
          break;
        default:
          break;
      }
      check_parts(clock.account(now), before + (now - t0));
      check_parts(clock.account(now, any_spent(random)), before + (now - t0));
    }
  }
}
