// What a worker's own record of its collectives says. PyTorch keeps one of each process group ("flight recorder"): a
// number for each call, its operation, sizes and type, and whether it is over. On all ranks of a group a call of the
// same number should be the same.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::rendezvous {

struct RecordedCall {
  std::uint64_t number = 0;    // in its group, from 1
  std::string operation = {};  // "all_reduce"
  std::string tensors = {};    // its input, "64x1024 bfloat16"; empty: it has none
  std::uint64_t elements = 0;  // of its input
  std::string type = {};       // of the first tensor
  int to = -1;                 // of a message: the global rank at its other end; else -1
  bool over = false;

  friend bool operator==(const RecordedCall&, const RecordedCall&) = default;
};

struct RecordedGroup {
  std::string name = {};                 // the same on all its ranks
  std::string description = {};          // its user's, "tp"; may be empty
  std::vector<int> ranks = {};           // global; empty: not known
  std::uint64_t entered = 0;             // the number of the last call
  std::vector<RecordedCall> calls = {};  // the last ones in their order, from the first that is not over: kCallsMax

  friend bool operator==(const RecordedGroup&, const RecordedGroup&) = default;
};
constexpr std::size_t kCallsMax = 4, kGroupsMax = 16;  // more are left out
constexpr std::size_t kCallTextMax = 256;              // of each text

struct CollectiveRecord {
  std::vector<RecordedGroup> groups = {};

  friend bool operator==(const CollectiveRecord&, const CollectiveRecord&) = default;
};

}  // namespace ddprun::rendezvous
