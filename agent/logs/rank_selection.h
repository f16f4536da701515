// Selects ranks: "0,2-5,g17". Plain numbers are local ranks, with a g global ranks.
//
// Pure. Two syntaxes use it: a set of ranks (--local-ranks-filter) and a value per rank (--redirects, --tee), which is
// torchrun's, "3" or "0:1,1:2", extended by ranges and numbers of several digits.
#pragma once
#include <string>
#include <variant>
#include <vector>

namespace ddprun::agent {

struct RankRange {
  int first = 0, last = 0;  // both included
  bool global = false;

  bool holds(int local_rank, int rank) const {
    const int value = global ? rank : local_rank;
    return first <= value && value <= last;
  }
};

// No range at all means every rank.
struct RankSet {
  std::vector<RankRange> ranges;
  bool nobody = false;  // "none"

  bool holds(int local_rank, int rank) const;
};

// Which of a worker's streams: bits.
enum StreamBits : unsigned { kNoStream = 0, kStdout = 1, kStderr = 2, kBothStreams = 3 };

struct StreamSpec {
  struct Item {
    RankRange ranks;
    unsigned streams = kNoStream;
  };
  unsigned everyone = kNoStream;  // for ranks that no item names
  std::vector<Item> items;        // the last match counts

  unsigned of(int local_rank, int rank) const;
  bool any() const;
};

// An error is the rest of a sentence: "'5' is not one of 0 (none), 1 (stdout), 2 (stderr), 3 (both)".
std::variant<RankSet, std::string> parse_rank_set(const std::string& text);
std::variant<StreamSpec, std::string> parse_stream_spec(const std::string& text);

}  // namespace ddprun::agent
