// `train write`, `train shards` and `train tour`: what train does besides training. Each takes the words after its own
// and returns the exit code.
#pragma once
#include <string>
#include <vector>

namespace ddprun::train {

int write_main(std::vector<std::string> arguments);
int shards_main(std::vector<std::string> arguments);
int tour_main(std::vector<std::string> arguments);

}  // namespace ddprun::train
