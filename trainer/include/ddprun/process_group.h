// The processes of a job as one group: who we are in it, and the way to the others.
//
// init_process_group() blocks until all ranks have joined; where that takes too long it says which ranks are missing.
// Collectives (collectives.h) must be called by every rank of a group in the same order. A peer that dies makes them
// throw PeerLost, over gloo within milliseconds; the group is of no use afterwards: leave, and let the launcher start
// again.
//
// Errors are exceptions whose what() is one sentence for a person: what, where, how to mend.
// Any thread may call, but one at a time for each group: what two threads of a rank call has no order.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace ddprun {

enum class Backend {
  automatic,  // nccl where each rank of a machine has a GPU of its own, else gloo
  gloo,       // CPU tensors
  nccl,       // GPU tensors; CPU tensors still travel by gloo
  mpi,        // refused: LibTorch is built without it
};

struct InitOptions {
  // env://            MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE as a launcher exports them; without RANK and
  //                   WORLD_SIZE this process is a world of its own. Rank 0 serves a store, unless the launcher does
  // tcp://host:port   rank 0 serves a store there, until its process ends
  // file:///path      a file that all ranks share; it must not be there before. The last rank that destroys its group
  //                   removes it; it stays where a rank dies. The second group made there meets in path.2, and so on
  std::string init_method = "env://";
  Backend backend = Backend::automatic;  // the same on all ranks; auto and nccl look for GPUs
  int rank = -1;                         // -1: from RANK
  int world_size = -1;                   // -1: from WORLD_SIZE
  // In place of init_method. A group takes the keys below "ddp/": each needs a store, or a PrefixStore, of its own.
  c10::intrusive_ptr<c10d::Store> store = {};
  // For the others to join, and for each collective over gloo and NCCL. A tenth of a second at least.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Before each collective the ranks tell each other what they are about to do: other shapes, types, or even calls, are
  // an exception with a sentence on every rank instead of a hang or wrong numbers. Costs a message of 384 bytes from
  // each rank to each. The same on all ranks. DistributedDataParallel's gradients travel without it.
  bool check_calls = true;
};

// A peer has died, or has not come within the time-out. The group is of no use any more.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// PeerLost, and what LibTorch throws itself for the same reason, as out of backward().
bool is_loss_of_peer(const std::exception& error);

// A handle; copies are the same group. Empty until assigned: then every member but operator bool throws.
class ProcessGroup {
 public:
  ProcessGroup() = default;

  int rank() const;
  int world_size() const;
  int local_rank() const;        // among this group's processes of this machine
  int local_world_size() const;  // how many they are
  bool is_main_process() const { return rank() == 0; }
  // Where this rank's model belongs: its GPU under nccl, else the CPU.
  at::Device device() const;
  Backend backend() const;  // gloo or nccl
  std::chrono::milliseconds timeout() const;
  // This group's ranks as they are counted in the group that init_process_group() or make_process_group() gave.
  const std::vector<int>& global_ranks() const;

  explicit operator bool() const { return state_ != nullptr; }
  // For LibTorch's own interfaces. Tensors handed to it must be contiguous.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d() const;
  // Shared by the ranks of this group only.
  c10::intrusive_ptr<c10d::Store> store() const;

  struct State;
  explicit ProcessGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // For the library's own use. Throws where the handle is empty or its group was destroyed.
  State& state() const;

 private:
  std::shared_ptr<State> state_;
};

// Makes the default group: one at a time. A process may destroy it and make another one, if all ranks do.
ProcessGroup init_process_group(const InitOptions& options = {});
bool is_initialized();
ProcessGroup default_group();  // throws where there is none
// Waits for nobody. The group and those made from it are of no use afterwards, whoever holds a handle. Call it before
// main ends; of peers that are still in a collective it is the loss.
void destroy_process_group();

// The same, but not the default one: it lives until destroy(), or until its last handle goes. A process may be several
// ranks, one per thread.
ProcessGroup make_process_group(const InitOptions& options);
void destroy(ProcessGroup& group);

// A group of some of `parent`'s ranks (ascending). All ranks of `parent` call it, in the same order, with the same
// ranks; it is empty on those that are not in it.
ProcessGroup new_group(const std::vector<int>& ranks, const ProcessGroup& parent = default_group());
// The ranks of this machine; under ddprun or torchrun, of this node. All ranks of `parent` call it.
ProcessGroup machine_group(const ProcessGroup& parent = default_group());

}  // namespace ddprun
#pragma GCC visibility pop
