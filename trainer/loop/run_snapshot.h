// Which snapshot a run goes on from, and what is said of one that does not fit it.
#pragma once
#include "trainer/loop/run.h"

namespace ddprun::train {

// Sets run.snapshot_path: as given, or the default. Where only a snapshot under the default's former name is here and
// fits the model, that one. A collective; the model exists, and nothing is written yet.
void choose_snapshot_path(Run& run);

// Throws UsageError, the same on all ranks, if the snapshot does not fit.
std::optional<Resumed> resume_or_refuse(Run& run, const TrainingState& state);

}  // namespace ddprun::train
