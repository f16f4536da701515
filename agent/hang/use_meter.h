// What workers take of their machine, for those that report nothing: how many processors, and since when nothing of
// theirs has moved.
//
// A value: it gets a sample of each worker every few seconds.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "rendezvous/base/time.h"

namespace ddprun::agent {

// Of a worker, with all that it has started.
struct UseSample {
  TimePoint at;
  double cpu_s = 0;          // since their start
  double bytes = 0;          // read and written
  std::uint64_t memory = 0;  // resident, of the largest of them
};

struct WorkerUse {
  std::optional<double> processors = {};  // on average, since a sample that is at least kUseWindow old or the first one
  std::uint64_t memory = 0;
  std::optional<Duration> still = {};  // for so long nothing has moved: no computing, no reading, no writing
};

constexpr std::chrono::seconds kUseWindow{1};
constexpr std::chrono::seconds kUseSampleFirst{2}, kUseSampleEvery{10};
// When all workers of a node have stood still for so long, people are told once.
constexpr std::chrono::minutes kAllStillLimit{10};

class UseMeter {
 public:
  void begin_round() { *this = {}; }
  void add(int local_rank, const UseSample& sample);
  // With this sample, which is not added.
  WorkerUse use(int local_rank, const UseSample& now) const;
  // True once in a round, when all of these have been still for kAllStillLimit.
  bool to_be_told(const std::vector<int>& local_ranks, TimePoint now);

 private:
  struct Seen {
    UseSample before, last;
    TimePoint still_since;
  };
  std::map<int, Seen> seen_;
  bool told_ = false;
};

}  // namespace ddprun::agent
