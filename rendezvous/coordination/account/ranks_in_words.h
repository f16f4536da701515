// "rank 3", "ranks 0, 2 and 3", "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 55 more".
#pragma once
#include <string>
#include <vector>

namespace ddprun::rendezvous {

std::string ranks_in_words(const std::vector<int>& ranks);

}  // namespace ddprun::rendezvous
