#include "ddprun/lr_schedule.h"

#include "tests/support/test.h"
#include "tests/trainer/lr_lines.h"

namespace {

std::string refusal(const SequentialLR& rules) {
  return test::error_text([&] { const LrSchedule schedule(0.1, rules); });
}

}  // namespace

// Not to the bit here: another machine's C library may round a cosine or a power in another way. data_tests compares
// bits, with the Python that is installed.
TEST_CASE("learning rates are PyTorch's, step by step", "[lr]") {
  int lines = 0;
  CHECK(test::lr_difference(test::read_file(test::source_folder() + "/tests/trainer/testdata/lr.txt"), 1e-12, lines) ==
        "");
  CHECK(lines == 54);
}

TEST_CASE("a schedule resumed anywhere goes on with the same rates, to the bit", "[lr]") {
  const LrSchedule fresh(0.3, warmup_cosine(10, 100, 0.01, 1e-4));
  LrSchedule undisturbed = fresh;
  for (std::int64_t steps = 0; steps < 200; ++steps, undisturbed.step()) {
    LrSchedule resumed = fresh;
    resumed.step();  // where it is does not matter
    resumed.resume(steps);
    REQUIRE(resumed.steps() == steps);
    REQUIRE(resumed.lr() == undisturbed.lr());
    resumed.step();
    undisturbed.step();
    REQUIRE(resumed.lr() == undisturbed.lr());
    undisturbed.resume(steps);
  }
}

TEST_CASE("warm-up and cosine rise to the base rate and fall to eta_min", "[lr]") {
  using Catch::Matchers::WithinAbs;
  LrSchedule schedule(0.3, warmup_cosine(10, 100, 0.01, 1e-4));
  CHECK_THAT(schedule.lr(), WithinAbs(0.003, 1e-9));
  schedule.resume(9);
  CHECK(schedule.lr() < 0.3);
  schedule.resume(10);
  CHECK_THAT(schedule.lr(), WithinAbs(0.3, 1e-9));
  schedule.resume(55);
  CHECK_THAT(schedule.lr(), WithinAbs(0.15005, 1e-9));
  schedule.resume(100);
  CHECK_THAT(schedule.lr(), WithinAbs(1e-4, 1e-9));
}

TEST_CASE("numbers that make no schedule are refused in one sentence", "[lr]") {
  CHECK(refusal({{StepLR{.step_size = 0}}, {}}) ==
        "cannot schedule the learning rate: step_size is 0 and has to be at least 1.");
  CHECK_THAT(refusal({{LinearLR{.start_factor = 0}}, {}}), Contains("start_factor is 0.000000 and has to be above 0"));
  CHECK_THAT(refusal({{LinearLR{.end_factor = 1.5}}, {}}), Contains("end_factor is 1.500000 and has to be 0 to 1"));
  CHECK_THAT(refusal({{LinearLR{.total_iters = 0}}, {}}), Contains("total_iters is 0"));
  CHECK_THAT(refusal({{ConstantLR{.factor = 0}}, {}}), Contains("factor is 0.000000"));
  CHECK_THAT(refusal(warmup_cosine(5, 5)), Contains("t_max is 0"));
  CHECK_THAT(refusal(warmup_cosine(0, 5)), Contains("do not rise from 1"));
  CHECK_THAT(refusal({{MultiStepLR{.milestones = {3, -1}}}, {}}), Contains("a milestone is below 0"));
  CHECK_THAT(refusal({{LambdaLR{}}, {}}), Contains("it has no function"));
  CHECK_THAT(refusal({{}, {}}), Contains("it has no rule"));
  CHECK_THAT(refusal({{StepLR{}, StepLR{}}, {}}), Contains("2 rules need 1 milestones between them, and it has 0"));
  CHECK_THAT(refusal({{StepLR{}, StepLR{}, StepLR{}}, {4, 4}}), Contains("do not rise"));
  CHECK_THROWS_WITH(LrSchedule(0.1, StepLR{}).resume(-1), Contains("it was saved after -1 steps"));
}
