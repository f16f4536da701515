// The command line of `train write`. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/command_line.h"

namespace ddprun::train {

struct WriteLine {
  std::string snapshot = "snapshot-gpt-text.pt", prompt = "";
  std::int64_t length = 400, top_k = 0;
  double temperature = 0.8;
  std::uint64_t seed = 0;
  std::optional<EarlyExit> early_exit = {};
};

// `arguments` are those after `train write`.
WriteLine read_write_line(std::vector<std::string> arguments);

}  // namespace ddprun::train
