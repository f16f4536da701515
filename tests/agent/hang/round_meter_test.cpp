#include "agent/hang/round_meter.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{};

RoundMeter started_round() {
  RoundMeter meter;
  meter.begin(t0);
  meter.started(t0 + 1s);
  return meter;
}

}  // namespace

TEST_CASE("before its workers run a round starts", "[account]") {
  RoundMeter meter;
  meter.begin(t0);
  CHECK(meter.spent(t0 + 3s) == RoundSpent{.start = 3s});
}

TEST_CASE("a program that reports nothing is productive from its start on", "[account]") {
  RoundMeter meter = started_round();
  meter.look({}, t0 + 10s);
  CHECK(meter.spent(t0 + 10s) == RoundSpent{.start = 1s, .train = 9s, .doing = TimeKind::productive});
  meter.look({.times = PhaseTimes{.attached = t0 + 4s, .since = t0 + 4s}}, t0 + 10s);  // it has attached, and no more
  CHECK(meter.spent(t0 + 10s) == RoundSpent{.start = 4s, .train = 6s, .doing = TimeKind::productive});
}

TEST_CASE("a worker's phases tell where the time went, exactly", "[account]") {
  RoundMeter meter = started_round();
  Progress seen{.phase = DDPRUN_PHASE_LOADING, .at = t0 + 3s, .phase_at = t0 + 3s};
  seen.times = PhaseTimes{.attached = t0 + 2s, .phase = DDPRUN_PHASE_LOADING, .since = t0 + 3s};
  meter.look(seen, t0 + 9s);
  CHECK(meter.spent(t0 + 9s) ==
        RoundSpent{.reports = true, .start = 2s, .restore = 7s, .doing = TimeKind::restore, .since_progress = 6s});

  seen = {.phase = DDPRUN_PHASE_TRAINING,
          .step = 109,
          .steps_done = 10,
          .at = t0 + 97s,
          .snapshot_step = 104,
          .step_at = t0 + 96s,
          .phase_at = t0 + 90s,
          .first_step = 100,
          .first_step_at = t0 + 12s};
  seen.times = PhaseTimes{.attached = t0 + 2s, .work = t0 + 10s, .phase = DDPRUN_PHASE_TRAINING, .since = t0 + 90s};
  seen.times->spent[DDPRUN_PHASE_TRAINING] = 50s;
  seen.times->spent[DDPRUN_PHASE_SAVING] = 10s;
  seen.times->spent[DDPRUN_PHASE_EVALUATING] = 15s;
  seen.times->spent[DDPRUN_PHASE_LOADING] = 5s;
  meter.look(seen, t0 + 100s);
  const RoundSpent spent = meter.spent(t0 + 100s);
  CHECK(measured(spent) == 100s);
  CHECK(spent == RoundSpent{.reports = true,
                            .start = 2s,
                            .restore = 13s,
                            .train = 60s,
                            .evaluate = 15s,
                            .save = 10s,
                            .doing = TimeKind::productive,
                            .since_progress = 3s,
                            .unfinished = 4s,
                            .steps = 10,
                            .first_step = 100,
                            .last_step = 109,
                            .snapshot_step = 104});
}

TEST_CASE("a worker that has finished only stops", "[account]") {
  RoundMeter meter = started_round();
  Progress seen{.phase = DDPRUN_PHASE_FINISHING, .step = 9, .steps_done = 9, .at = t0 + 80s, .step_at = t0 + 79s};
  seen.times = PhaseTimes{.attached = t0 + 2s, .work = t0 + 2s, .phase = DDPRUN_PHASE_FINISHING, .since = t0 + 80s};
  seen.times->spent[DDPRUN_PHASE_TRAINING] = 78s;
  meter.look(seen, t0 + 100s);
  const RoundSpent spent = meter.spent(t0 + 100s);
  CHECK(measured(spent) == 80s);
  CHECK(spent.doing == TimeKind::stop);
  CHECK(spent.unfinished == 0s);
}

TEST_CASE("steps without phases tell when the first one began", "[account]") {
  RoundMeter meter = started_round();
  Progress seen{
      .step = 5, .steps_done = 5, .at = t0 + 50s, .step_at = t0 + 50s, .first_step = 1, .first_step_at = t0 + 30s};
  seen.times = PhaseTimes{.attached = t0 + 2s, .since = t0 + 2s};
  meter.look(seen, t0 + 51s);
  const RoundSpent spent = meter.spent(t0 + 51s);
  CHECK(spent.restore == 23s);
  CHECK(spent.train == 26s);
  CHECK(spent.unfinished == 1s);
}

TEST_CASE("phases of a program with an older channel are those that were seen", "[account]") {
  RoundMeter meter = started_round();
  meter.look({.phase = DDPRUN_PHASE_LOADING, .at = t0 + 2s, .phase_at = t0 + 2s}, t0 + 5s);
  meter.look({.phase = DDPRUN_PHASE_TRAINING, .at = t0 + 10s, .phase_at = t0 + 10s}, t0 + 12s);
  meter.look({.phase = DDPRUN_PHASE_SAVING,
              .step = 3,
              .steps_done = 3,
              .at = t0 + 40s,
              .step_at = t0 + 40s,
              .phase_at = t0 + 40s},
             t0 + 41s);
  meter.look({.phase = DDPRUN_PHASE_TRAINING,
              .step = 3,
              .steps_done = 3,
              .at = t0 + 45s,
              .step_at = t0 + 40s,
              .phase_at = t0 + 45s},
             t0 + 50s);
  const RoundSpent spent = meter.spent(t0 + 50s);
  CHECK(spent.start == 1s);
  CHECK(spent.restore == 9s);
  CHECK(spent.save == 5s);
  CHECK(spent.train == 35s);
  CHECK(spent.unfinished == 5s);
  CHECK_FALSE(spent.first_step);
}

TEST_CASE("nothing of a page is older than its round, or later than now", "[account]") {
  RoundMeter meter = started_round();
  Progress seen{.phase = DDPRUN_PHASE_TRAINING,
                .step = 9,
                .steps_done = UINT64_MAX,
                .at = t0 + 100h,
                .step_at = t0 - 1h,
                .first_step = 1,
                .first_step_at = t0 + 50h};
  seen.times = PhaseTimes{.attached = t0 - 5s, .work = t0 - 4s, .phase = DDPRUN_PHASE_TRAINING, .since = t0 + 9h};
  seen.times->spent.fill(1h);
  meter.look(seen, t0 + 100s);
  const RoundSpent spent = meter.spent(t0 + 100s);
  for (const Duration part :
       {spent.start, spent.restore, spent.train, spent.save, spent.evaluate, spent.since_progress, spent.unfinished})
    CHECK(part >= 0s);
  CHECK(account_of(spent, 100s, RoundEnd::hang).total() == 100s);
}
