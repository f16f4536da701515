// The state behind a ProcessGroup, and the message exchanged before its collectives.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "ddprun/process_group.h"
#include "trainer/ddp/group/roster.h"

namespace ddprun {

struct ProcessGroup::State {
  int rank = 0, world_size = 1, local_rank = 0, local_world_size = 1;
  Backend backend = Backend::gloo;
  at::Device device = at::kCPU;
  std::chrono::milliseconds timeout{0};
  bool check_calls = true;
  std::vector<int> global_ranks;
  Roster roster;          // of this group
  std::string interface;  // GLOO_SOCKET_IFNAME
  std::string address;    // this rank's, for gloo; empty: gloo chooses one
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<c10d::ProcessGroup> c10d;                            // null: destroyed
  std::shared_ptr<void> cleanup;                                          // cleans up when the group is destroyed
  std::unique_ptr<std::mutex> starting = std::make_unique<std::mutex>();  // a call
  bool aborted = false;
  int groups_made = 0;
  std::vector<std::weak_ptr<State>> children;
};

// Describes one rank's call and its tensor's shape for the other ranks. Sent as it is in memory.
struct Record {
  static constexpr int kDimsMax = 16;
  char call[239] = {};  // "all_reduce(sum) of Float [2, 3]": equal on all ranks
  char refused = 0;     // `call` says why this rank cannot
  std::int8_t type = 0;
  std::int8_t on_gpu = 0;
  std::int16_t dims = 0;
  std::int32_t root = 0;
  std::int64_t bytes = 0;
  std::int64_t sizes[kDimsMax] = {};
};
static_assert(sizeof(Record) == 384 && std::is_trivially_copyable_v<Record>);

// Exchanges the records before a collective; returns them by rank. If one rank refuses, or the calls differ, all ranks
// throw the same sentence.
std::vector<Record> agree(const ProcessGroup& group, const Record& mine);

// An empty `problem` means that the call is valid.
Record record_of(const std::string& call, const std::string& problem);

// Runs c10d's part of a call to its end; its exceptions become PeerLost if a peer is lost, else a sentence.
void run_c10d_call(const ProcessGroup& group, const std::string& call,
                   const std::function<c10::intrusive_ptr<c10d::Work>(c10d::ProcessGroup&)>& start);

}  // namespace ddprun
