// The test set, seen by all ranks together: each looks at its part, and no sample is counted twice.
#pragma once
#include <cstdint>

#include "trainer/run.h"

namespace ddprun::train {

struct Evaluation {
  double train_loss = 0;  // mean over the samples of the epoch; NaN where there was none
  double loss = 0;        // mean over what was to be told: classes, characters, numbers
  std::int64_t correct = 0, observed = 0;
  double accuracy() const { return observed ? static_cast<double>(correct) / static_cast<double>(observed) : 0; }
};

// After an epoch. A collective; all ranks have the same answer. `write_predictions`: rank 0 also writes --predictions.
Evaluation evaluate(Run& run, bool write_predictions);

}  // namespace ddprun::train
