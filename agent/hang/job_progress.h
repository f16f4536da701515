// How far a job is, as the event log has it.
#pragma once
#include <cstdint>
#include <optional>

namespace ddprun::agent {

struct JobProgress {
  std::uint64_t step = 0;
  std::optional<double> steps_per_second = {}, loss = {};
  std::optional<std::uint64_t> total_steps = {};
};

}  // namespace ddprun::agent
