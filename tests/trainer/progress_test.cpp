#include "trainer/loop/progress.h"

#include "tests/support/test.h"

namespace {

// What `use` prints.
template <class Use>
std::string printed(Progress::Style style, int log_every, Use use) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* file = open_memstream(&text, &size);
  Progress progress(file, style, log_every);
  use(progress);
  std::fclose(file);
  const std::unique_ptr<char, decltype(&std::free)> owner(text, &std::free);
  return {text, size};
}

const TimePoint t0{};

void three_steps(Progress& progress) {
  for (int step = 1; step <= 3; ++step) progress.step({2, step, 3, 0.1f}, t0 + step * 1s);
}

}  // namespace

TEST_CASE("a step's line tells any two losses apart", "[progress]") {
  CHECK(line_of(StepReport{2, 17, 24, 0.1f}) == "epoch 2 step 17 loss 0.100000001");
}

TEST_CASE("an epoch's line has the accuracy and what it is made of", "[progress]") {
  CHECK(line_of(EpochReport{.epoch = 2,
                            .epochs = 10,
                            .loss = 0.5,
                            .evaluated = true,
                            .correct = 283,
                            .tested = 297,
                            .samples_per_second = 12345.6}) ==
        "epoch 2 of 10: loss 0.5000, accuracy 0.9529 (283 of 297), 12346 samples/s");
}

TEST_CASE("text has a test loss beside its accuracy, numbers have it alone, and an epoch that was not judged neither",
          "[progress]") {
  CHECK(line_of(EpochReport{
            .epoch = 1, .epochs = 2, .loss = 3, .evaluated = true, .correct = 1, .tested = 4, .test_loss = 2.5}) ==
        "epoch 1 of 2: loss 3.000, test loss 2.500, accuracy 0.2500, 0 samples/s");
  CHECK(line_of(RunReport{.epochs = 2, .test_loss = 0.25, .samples = 10, .time = 1s}) ==
        "done: 2 epochs, test loss 0.2500, 10 in 1.0 s: 10 samples/s");
  CHECK(line_of(EpochReport{.epoch = 1, .epochs = 2, .loss = 3, .correct = 1, .tested = 4}) ==
        "epoch 1 of 2: loss 3.000, 0 samples/s");
}

TEST_CASE("the time left is told in minutes, and in hours where it takes them", "[progress]") {
  const auto left = [](double seconds) {
    const std::string bar = bar_of({.epoch = 1, .step = 1, .steps = 2, .loss = 0, .seconds_left = seconds}, 80);
    return bar.substr(bar.find(", ") + 2, bar.rfind(", ") - bar.find(", ") - 2);
  };
  CHECK(left(0.4) == "0:00 left");
  CHECK(left(605) == "10:05 left");
  CHECK(left(3661) == "1:01:01 left");
}

TEST_CASE("the bar fits the terminal, down to 30 columns", "[progress]") {
  const StepReport step{
      .epoch = 12, .step = 123, .steps = 469, .loss = 0.00012346, .samples_per_second = 20000, .seconds_left = 3661};
  CHECK(bar_of(step, 100) ==
        "epoch 12 [======                  ] 123/469 loss 0.0001235, 1:01:01 left, 20000 samples/s");
  for (std::size_t columns = 30; columns <= 100; ++columns) {
    INFO(columns << ": " << bar_of(step, columns));
    CHECK(bar_of(step, columns).size() < columns);
    CHECK_THAT(bar_of(step, columns), Contains("123/469"));
  }
  CHECK(bar_of(step, 40) == "epoch 12 [=    ] 123/469 loss 0.0001235");
  CHECK(bar_of(step, 31) == "epoch 12 [==         ] 123/469");
}

TEST_CASE("the last line sums the run up", "[progress]") {
  CHECK(line_of(RunReport{.epochs = 10, .correct = 283, .tested = 297, .samples = 15000, .time = 2s}) ==
        "done: 10 epochs, accuracy 0.9529 (283 of 297), 15000 in 2.0 s: 7500 samples/s");
  CHECK(line_of(RunReport{.epochs = 8, .samples = 12560, .time = 10400ms}).ends_with(" in 10 s: 1208 samples/s"));
}

TEST_CASE("a log has a line for every N-th step", "[progress]") {
  CHECK(printed(Progress::Style::lines, 2, three_steps) == "epoch 2 step 2 loss 0.100000001\n");
  CHECK(printed(Progress::Style::lines, 0, three_steps).empty());
}

TEST_CASE("a rank that is not to print prints nothing", "[progress]") {
  CHECK(printed(Progress::Style::silent, 1, [](Progress& progress) {
          three_steps(progress);
          progress.line("done");
        }).empty());
}

TEST_CASE("a terminal has a bar that gives way to a line", "[progress]") {
  const std::string text = printed(Progress::Style::terminal, 0, [](Progress& progress) {
    progress.step({1, 1, 3, 0.5, 4000, 65}, t0 + 1s);
    progress.step({1, 2, 3, 0.5}, t0 + 1s + 1ms);  // too soon to be drawn
    progress.step({1, 3, 3, 0.5}, t0 + 1s + 2ms);  // the last one always is
    progress.line("epoch 1");
  });
  CHECK_THAT(text, Contains("epoch 1 [========                ] 1/3 loss 0.5000, 1:05 left, 4000 samples/s") &&
                       !Contains(" 2/3 ") && Contains(" 3/3 "));
  CHECK_THAT(text, EndsWith("\r\x1b[Kepoch 1\n"));
}

TEST_CASE("each rank's part of an evaluation is in one line", "[progress]") {
  CHECK(line_of(std::vector<RankPart>{{131, 149}, {133, 148}}, true) ==
        "rank 0: n_correct 131 of n_obs 149, rank 1: n_correct 133 of n_obs 148");
  CHECK(line_of(std::vector<RankPart>{{0, 256}}, false) == "rank 0: n_obs 256");
}
