#include "launcher/ssh/tree.h"

#include <algorithm>

namespace ddprun::launcher {

std::vector<Branch> branches(std::size_t count, std::size_t fan_out) {
  std::vector<Branch> out;
  const std::size_t parts = std::min(count, std::max<std::size_t>(fan_out, 1));
  for (std::size_t part = 0, first = 0; part < parts; ++part) {
    const std::size_t size = count / parts + (part < count % parts ? 1 : 0);
    out.push_back({first, size});
    first += size;
  }
  return out;
}

}  // namespace ddprun::launcher
