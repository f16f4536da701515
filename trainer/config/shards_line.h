// The command line of `train shards`. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/command_line.h"

namespace ddprun::train {

struct ShardsLine {
  std::string from, to;
  std::string dataset = "";  // empty: by the files in `from`
  std::int64_t shard_bytes = std::int64_t{16} << 20;
  std::optional<EarlyExit> early_exit = {};
};

// `arguments` are those after `train shards`.
ShardsLine read_shards_line(std::vector<std::string> arguments);

}  // namespace ddprun::train
