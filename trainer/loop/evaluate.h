// Evaluates the test set on all ranks together: each takes its part, and no sample is counted twice.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>

#include "trainer/loop/run.h"

namespace ddprun::train {

struct Evaluation {
  double train_loss = 0;  // mean over the epoch's samples; NaN without any
  double loss = 0;        // mean over the targets: classes, characters, numbers
  std::int64_t correct = 0, observed = 0;
  std::vector<RankPart> parts = {};  // by rank, with --verbose
  double accuracy() const { return observed ? static_cast<double>(correct) / static_cast<double>(observed) : 0; }
};

// Called after epoch `epoch`. A collective with one result for all ranks. `write_predictions`: rank 0 writes
// --predictions. `stops` is asked after each batch, equally often on all ranks: if it returns true, on all of them at
// the same batch, the evaluation ends without a result, and the run is as before.
std::optional<Evaluation> evaluate(Run& run, std::int64_t epoch, bool write_predictions,
                                   const std::function<bool()>& stops);

}  // namespace ddprun::train
