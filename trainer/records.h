// What a run leaves for programs to read: metrics while it goes on, and its final numbers. Rank 0's, over all ranks.
#pragma once
#include <memory>

#include "trainer/evaluate.h"
#include "trainer/metrics/metrics.h"
#include "trainer/run.h"

namespace ddprun::train {

struct Result {
  const char* ended;    // done, early, saved
  std::string unsaved;  // why the last snapshot is not there; empty: it is
  const EpochReport& last;
  const Evaluation& evaluation;  // the last one
  std::int64_t samples;          // of this process's part of the run, over all ranks
  double seconds;
};

class Records {
 public:
  // Error, on all ranks, where rank 0 could not write what is asked for. A collective.
  explicit Records(Run& run);

  // After each step; a collective where --log-every names this one. `loss`: this rank's.
  void step(const at::Tensor& loss);
  void epoch(const EpochReport& report, const Evaluation& evaluation);
  // At the end. Error for what the disk refuses.
  void result(const Result& result) const;

 private:
  Run& run_;
  std::unique_ptr<MetricsLog> metrics_;  // rank 0's, where they are asked for
};

}  // namespace ddprun::train
