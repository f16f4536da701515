#include "rendezvous/coordination/account/ranks_in_words.h"

#include <algorithm>
#include <cstddef>

namespace ddprun::rendezvous {
namespace {

constexpr std::size_t kRanksNamed = 8;

}  // namespace

std::string ranks_in_words(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t named = std::min(ranks.size(), kRanksNamed);
  for (std::size_t i = 0; i < named; ++i) {
    const bool last = i + 1 == ranks.size();
    out += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  return ranks.size() > named ? out + " and " + std::to_string(ranks.size() - named) + " more" : out;
}

}  // namespace ddprun::rendezvous
