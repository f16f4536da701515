// The command line of `train tour`. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/command_line.h"

namespace ddprun::train {

struct TourLine {
  std::string name, svg, device = "auto";
  std::optional<EarlyExit> early_exit = {};  // without a name: the list of tours
};

// `arguments` are those after `train tour`.
TourLine read_tour_line(std::vector<std::string> arguments);

}  // namespace ddprun::train
