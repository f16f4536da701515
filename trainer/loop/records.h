// Writes a run's output for programs: metrics while it runs, and its final numbers. Rank 0 writes, for all ranks.
#pragma once
#include <memory>

#include "trainer/loop/evaluate.h"
#include "trainer/loop/run.h"
#include "trainer/metrics/metrics.h"

namespace ddprun::train {

struct Result {
  const char* ended;    // done, early, saved
  std::string unsaved;  // why the last snapshot was not written; empty: it was
  const EpochReport& last;
  const Evaluation& evaluation;  // the last one
  std::int64_t samples;          // trained on since this process began, over all ranks
  double seconds;
};

class Records {
 public:
  // Throws Error, on all ranks, if rank 0 cannot write a requested file. A collective.
  explicit Records(Run& run);

  // Call it after each step; a collective at steps that --log-every selects. `loss`: this rank's.
  void step(const at::Tensor& loss);
  void epoch(const EpochReport& report, const Evaluation& evaluation);
  // Call it at the end. Throws Error on a disk error.
  void result(const Result& result) const;

 private:
  Run& run_;
  std::unique_ptr<MetricsLog> metrics_;  // on rank 0, if requested
};

}  // namespace ddprun::train
