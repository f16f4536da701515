// Whole courses of `train` beside Python's DDP, two ranks each, from the same command line and seed: python_ddp.py
// reads the data and draws the first weights on its own. ConvNet's is in train_test.cpp.
#include "tests/support/test.h"
#include "tests/trainer/ranks.h"

namespace {

const Words kResNet = split("3 --model=resnet18 --set model.width_divisor=8 --lr=0.02 --batch-size=16 --seed=5");
const Words kGpt = split("2 --model=gpt --set data.stride=32 --lr=0.003 --weight-decay=0.1 --batch-size=16 --seed=5");

struct TrainingRun {
  Words step_lines = {};
  std::vector<double> losses = {};  // of rank 0's steps
  double accuracy = 0;              // at the end
  std::string end = {};             // what the last epoch's evaluation found
};

TrainingRun training_run_of(const Ended& ended) {
  TrainingRun run{.step_lines = step_lines(ended.out), .losses = losses_in(ended.out)};
  std::smatch match;
  REQUIRE(std::regex_search(ended.out, match,
                            std::regex("done: .* epochs?, (.*accuracy ([0-9.]+).*), [0-9]+ (samples )?in ")));
  run.end = match[1];
  run.accuracy = std::stod(match[2]);
  return run;
}

TrainingRun our_run(const Words& words, const Words& more = {}) {
  const TempFolder folder;
  const Words all = with(with(words, more), {"--log-every=1", "--snapshot", folder / "snapshot.pt"});
  return training_run_of(run_ranks(2, all));
}

TrainingRun python_run(const Words& words, const Words& more = {}) {
  const TempFolder folder;
  const Words program{venv_python(), source_folder() + "/tests/trainer/python_ddp.py"};
  const Words all = with(with(words, more), {"--threads=1", "--log-every=1", "--snapshot", folder / "snapshot.pt"});
  return training_run_of(Ranks(2, with(program, all)).wait_all_good());
}

// Largest difference of a step's losses, as a part of them.
double largest_difference(const TrainingRun& a, const TrainingRun& b, std::size_t steps) {
  REQUIRE(a.losses.size() >= steps);
  REQUIRE(b.losses.size() == a.losses.size());
  double largest = 0;
  for (std::size_t i = 0; i < steps; ++i) largest = std::max(largest, std::abs(a.losses[i] / b.losses[i] - 1));
  return largest;
}

}  // namespace

TEST_CASE("resnet18 on the digits has every loss and the last epoch's accuracy of Python's DDP", "[peer]") {
  const TrainingRun mine = our_run(kResNet), python = python_run(kResNet);
  CHECK(mine.step_lines.size() == 3 * 47);
  CHECK(mine.step_lines == python.step_lines);
  CHECK(std::abs(mine.accuracy - python.accuracy) <= 0.01);
  CHECK(mine.losses.back() < mine.losses.front());
}

// Python's own AdamW takes the mean of the gradients as m + (1 - b) * (g - m), LibTorch's as b * m + (1 - b) * g: they
// round differently, and each step makes a little more of it. With LibTorch's written in Python not a bit differs.
TEST_CASE("gpt's loss curve on its text is Python's, bit for bit where both round AdamW's means alike", "[peer]") {
  const TrainingRun mine = our_run(kGpt), python = python_run(kGpt, {"--optimizer=libtorch-adamw"});
  CHECK(mine.step_lines.size() == 2 * 25);
  CHECK(mine.step_lines == python.step_lines);
  CHECK(mine.end == python.end);
  CHECK(mine.losses.back() < 0.7 * mine.losses.front());

  const TrainingRun stock = python_run(kGpt, {"--optimizer=adamw"});
  CHECK(largest_difference(mine, stock, 10) <= 1e-6);
  CHECK(largest_difference(mine, stock, mine.losses.size()) <= 1e-3);
  CHECK(std::abs(mine.accuracy - stock.accuracy) <= 0.01);
}
