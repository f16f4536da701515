// Who starts whom: up to `fan_out` hosts are reached directly, each of them reaches the hosts of its branch. Pure.
#pragma once
#include <cstddef>
#include <vector>

namespace ddprun::launcher {

struct Branch {
  std::size_t first = 0;  // of the list: the host that is reached directly
  std::size_t size = 1;   // it and the hosts behind it, which it reaches in turn
};

// Consecutive parts of a list of `count` hosts, as equal as possible.
std::vector<Branch> branches(std::size_t count, std::size_t fan_out);

}  // namespace ddprun::launcher
