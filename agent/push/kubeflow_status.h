// What Kubeflow Trainer is told of a job's progress: a TrainJob's trainerStatus (KEP-2779). Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

struct TrainingProgress {
  std::uint64_t step = 0;                         // that all ranks here have completed
  std::optional<std::uint64_t> steps_total = {};  // when the job has done all
  std::optional<double> steps_per_second = {};
  std::optional<double> samples_per_second = {};              // of the ranks here
  std::vector<std::pair<std::string, double>> measured = {};  // by the user's definitions: a loss
  bool done = false;                                          // the job has ended well
};

constexpr std::size_t kKubeflowMetricsMax = 32;

// `now`: seconds since 1970.
std::string kubeflow_status(const TrainingProgress& progress, std::int64_t now);

}  // namespace ddprun::agent
