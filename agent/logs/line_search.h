// Searches the workers' lines for patterns of the job's file, and drops a pattern that takes too long.
//
// Used by one thread, without a lock: a search may take as long as a SearchBudget allows.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/diagnosis/pattern.h"

namespace ddprun::agent {

// What each of several patterns captures in a line, in their order.
using Captures = std::vector<std::optional<std::string>>;

class LineSearch {
 public:
  static constexpr int kTooLongMax = 10;  // as many lines, of the whole job

  struct Wanted {
    std::string pattern;  // valid; empty: captures nothing
    std::string whose;    // "the rule at job.toml:7"
  };
  explicit LineSearch(const std::vector<Wanted>& wanted);
  Captures captured_in(std::string_view line);

  struct Dropped {
    std::size_t index = 0;
    Wanted wanted;
  };
  // Since the last call.
  std::vector<Dropped> take_dropped();

 private:
  struct Tried {
    Wanted wanted;
    std::optional<Pattern> pattern = {};
    int too_long = 0;
  };
  std::optional<std::string> capture(std::size_t index, std::string_view line);

  std::vector<Tried> tried_;
  std::vector<Dropped> dropped_;
};

}  // namespace ddprun::agent
