// Evaluates the test set on all ranks together: each takes its part, and no sample is counted twice.
#pragma once
#include <cstdint>

#include "trainer/run.h"

namespace ddprun::train {

struct Evaluation {
  double train_loss = 0;  // mean over the epoch's samples; NaN without any
  double loss = 0;        // mean over the targets: classes, characters, numbers
  std::int64_t correct = 0, observed = 0;
  double accuracy() const { return observed ? static_cast<double>(correct) / static_cast<double>(observed) : 0; }
};

// Called after an epoch. A collective with one result for all ranks. `write_predictions`: rank 0 writes --predictions.
Evaluation evaluate(Run& run, bool write_predictions);

}  // namespace ddprun::train
