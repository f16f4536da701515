#include "agent/logs/rank_selection.h"

#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::fuzz;

DDPRUN_FUZZER(rank_selection) {
  const std::string text = text_of(data, size);
  const auto spec = parse_stream_spec(text);
  if (const auto* read = std::get_if<StreamSpec>(&spec)) {
    unsigned seen = kNoStream;
    for (int rank = 0; rank < 64; ++rank) seen |= read->of(rank % 8, rank);
    promise(seen <= kBothStreams, "a stream spec names nothing but the two streams");
    promise(seen == kNoStream || read->any(), "any() is true where some rank has a stream");
  } else {
    promise(!std::get<std::string>(spec).empty(), "what cannot be read is told");
  }
  const auto set = parse_rank_set(text);
  if (const auto* read = std::get_if<RankSet>(&set))
    promise(!read->nobody || !read->holds(0, 0), "nobody holds no rank");
  else
    promise(!std::get<std::string>(set).empty(), "what cannot be read is told");
  return 0;
}
