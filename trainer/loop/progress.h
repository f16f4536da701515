// Prints a run's progress: plain lines in a log, a progress bar on a terminal. A pure function formats each kind of
// line; Progress only decides which to print and when.
//
// Only rank 0 prints: give the other ranks a silent one. Every line is flushed at once, so that the log shows the
// current step.
#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::train {

struct StepReport {
  std::int64_t epoch, step, steps;  // all from 1; `steps` in this epoch
  double loss;                      // this rank's own
  double samples_per_second = 0;    // all ranks
  double seconds_left = 0;          // of the run, at this epoch's speed so far
};

struct EpochReport {
  std::int64_t epoch = 0, epochs = 0;
  double loss = 0;                       // mean over the samples of all ranks
  bool evaluated = false;                // whether the next members are known
  std::int64_t correct = 0, tested = 0;  // over all ranks; 0 if the task is not classification
  std::optional<double> test_loss = {};  // if it adds information
  double samples_per_second = 0;         // all ranks, training and testing
};

// A rank's part of an evaluation.
struct RankPart {
  std::int64_t correct = 0, observed = 0;
};

struct RunReport {
  std::int64_t epochs = 0, correct = 0, tested = 0;
  std::optional<double> test_loss = {};
  std::int64_t samples = 0;  // trained on, all ranks
  std::chrono::duration<double> time{};
};

std::string line_of(const StepReport& step);  // epoch 2 step 17 loss 0.123456789
std::string line_of(
    const EpochReport& epoch);  // epoch 2 of 10: loss 0.1235, accuracy 0.9529 (283 of 297), 20000 samples/s
std::string line_of(const RunReport& run);
// rank 0: n_correct 131 of n_obs 149, rank 1: ...; without n_correct if nothing is classified
std::string line_of(const std::vector<RankPart>& parts, bool classified);
// epoch 2 [====    ] 17/24 loss 0.1235, 1:05 left, 20000 samples/s: what fits into so many columns
std::string bar_of(const StepReport& step, std::size_t columns);

class Progress {
 public:
  enum class Style { silent, lines, terminal };
  Progress(std::FILE* out, Style style, int log_every) : out_(out), style_(style), log_every_(log_every) {}

  // Whether to report `step`: check it first to avoid copying the loss from the GPU.
  bool wants(std::int64_t step, std::int64_t steps, TimePoint now) const;
  void step(const StepReport& report, TimePoint now);
  void line(const std::string& text);
  bool on_terminal() const { return style_ == Style::terminal; }

 private:
  void clear_bar();

  std::FILE* out_;
  Style style_;
  int log_every_;
  bool bar_shown_ = false;
  TimePoint bar_time_{};
};

}  // namespace ddprun::train
