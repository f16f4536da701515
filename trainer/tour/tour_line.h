// The command line of `train tour`. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/command_line.h"
#include "trainer/tour/deal.h"

namespace ddprun::train {

struct TourLine {
  std::string name, svg, device = "auto";
  std::int64_t samples = kTourSamples, batch_size = kTourBatch;
  std::optional<EarlyExit> early_exit = {};  // without a name: the list of tours
};

// `arguments` are those after `train tour`.
TourLine read_tour_line(std::vector<std::string> arguments);

}  // namespace ddprun::train
