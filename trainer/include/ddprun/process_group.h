// The processes of a job as one group: this process's rank in it, and the connections to the others.
//
// init_process_group() blocks until all ranks have joined; after the time-out its exception names the missing ranks.
// Collectives (collectives.h) must be called by every rank of a group in the same order. Over gloo a peer that dies
// makes them throw PeerLost within milliseconds; the group is unusable afterwards: exit, and let the launcher restart
// the job.
//
// Over NCCL a call returns once it is queued on the GPU, so a lost peer is no exception of the call: whatever waits for
// the GPU next waits on, until the launcher's SIGTERM ends this process (ddprun sends it as soon as a peer has died),
// or, without a launcher, until LibTorch's watchdog ends it after `timeout`.
//
// Errors are exceptions whose what() is one sentence for a person: what, where, how to fix it.
// Any thread may call, but one at a time for each group, as calls from two threads have no order.
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
  automatic,  // nccl if each rank of a machine has its own GPU, else gloo
  gloo,       // CPU tensors
  nccl,       // GPU tensors; CPU tensors still use gloo
  mpi,        // rejected: LibTorch is built without it
};

struct InitOptions {
  // env://            MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE as a launcher exports them; without RANK and
  //                   WORLD_SIZE as mpirun or srun do, else the world is this process. Rank 0 serves a store, unless
  //                   the launcher does
  // tcp://host:port   rank 0 serves a store there, until its process ends
  // file:///path      a file that all ranks share; it must not exist before. The last rank that destroys its group
  //                   removes it; it stays if a rank dies. The second group made there uses path.2, and so on
  std::string init_method = "env://";
  Backend backend = Backend::automatic;  // the same on all ranks; auto and nccl look for GPUs
  int rank = -1;                         // -1: from RANK
  int world_size = -1;                   // -1: from WORLD_SIZE
  // Replaces init_method. A group uses the keys below "ddp/": each group needs its own store or PrefixStore.
  c10::intrusive_ptr<c10d::Store> store = {};
  // For joining the group, and for each collective over gloo and NCCL. At least a tenth of a second.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  // Before each collective the ranks exchange a description of the call: different shapes, types or calls then give an
  // exception on every rank instead of a hang or wrong numbers. Costs a message of 384 bytes from each rank to each
  // other. Must be the same on all ranks. DistributedDataParallel's gradients are not checked.
  bool check_calls = true;
};

// A peer died or did not arrive within the time-out. The group is unusable from then on.
class PeerLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Also true for LibTorch's own exceptions for the same reason, such as those thrown by backward().
bool is_loss_of_peer(const std::exception& error);

// A handle; copies refer to the same group. While it is empty, every member except operator bool throws.
class ProcessGroup {
 public:
  ProcessGroup() = default;

  int rank() const;
  int world_size() const;
  int local_rank() const;        // among this group's processes on this machine
  int local_world_size() const;  // their number
  bool is_main_process() const { return rank() == 0; }
  // The device for this rank's model: its GPU with nccl, else the CPU.
  at::Device device() const;
  Backend backend() const;  // gloo or nccl
  std::chrono::milliseconds timeout() const;
  // This group's ranks, numbered as in the group that init_process_group() or make_process_group() returned.
  const std::vector<int>& global_ranks() const;

  explicit operator bool() const { return state_ != nullptr; }
  // For LibTorch's own interfaces. Tensors handed to it must be contiguous.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d() const;
  // Only the ranks of this group share it.
  c10::intrusive_ptr<c10d::Store> store() const;

  struct State;
  explicit ProcessGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}
  // For internal use. Throws if the handle is empty or its group was destroyed.
  State& state() const;

 private:
  std::shared_ptr<State> state_;
};

// Makes the default group; there is one at a time. A process may destroy it and make another one, if all ranks do.
// With peers, a process in which SIGPIPE has no handler ignores it from then on, as Python does: the loss of a peer is
// an exception.
ProcessGroup init_process_group(const InitOptions& options = {});
bool is_initialized();
ProcessGroup default_group();  // throws if there is none
// Does not wait for other ranks. All handles to the group and to those made from it become unusable. Call it before
// main ends. Peers that are still in a collective throw PeerLost.
void destroy_process_group();

// The same after PeerLost, without waiting for calls that peers will not answer.
void abort_process_group();

// Makes a group that is not the default one. It lives until destroy() or until its last handle is destroyed. A process
// may be several ranks, one per thread.
ProcessGroup make_process_group(const InitOptions& options);
void destroy(ProcessGroup& group);

// A group of some of `parent`'s ranks (ascending). All ranks of `parent` call it, in the same order, with the same
// ranks; those that are not in it get an empty handle.
ProcessGroup new_group(const std::vector<int>& ranks, const ProcessGroup& parent = default_group());
// The ranks of this machine; under ddprun or torchrun, of this node. All ranks of `parent` call it.
ProcessGroup machine_group(const ProcessGroup& parent = default_group());

}  // namespace ddprun
#pragma GCC visibility pop
