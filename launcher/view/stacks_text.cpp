#include "launcher/view/stacks_text.h"

namespace ddprun::launcher {

// Each rank's part begins with a line "rank 3 on node7, process 4711: ...".
std::string stacks_of_rank(const std::string& all, std::optional<int> rank) {
  if (!rank) return all;
  const std::string heading = "rank " + std::to_string(*rank) + " on ", any = "\nrank ";
  std::size_t begin = all.starts_with(heading) ? 0 : all.find("\n" + heading);
  if (begin == all.npos) return "No stacks of rank " + std::to_string(*rank) + " have come.\n";
  if (begin != 0) ++begin;
  const std::size_t end = all.find(any, begin);
  return all.substr(begin, end == all.npos ? end : end + 1 - begin);
}

}  // namespace ddprun::launcher
