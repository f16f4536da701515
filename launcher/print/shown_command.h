// A command line for others to read. Pure.
#pragma once
#include <string>
#include <vector>

namespace ddprun::launcher {

// "ddprun --nproc-per-node=4 train.py --api-key=***": as a shell takes it, without the values of words whose names end
// with key, token, secret or the like.
std::string shown_command(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
