// The processes of a job as one group: who we are in it, and the way to the others.
//
// init_process_group() blocks until all ranks have joined; where that takes too long it says which ranks are missing.
// Collectives (collectives.h) must be called by every rank of a group in the same order. A peer that dies makes them
// throw, over gloo within milliseconds; the group is of no use afterwards: leave, and let the launcher start again.
//
// Errors are exceptions whose what() is one sentence for a person: what, where, how to mend.
#pragma once
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace ddprun {

enum class Backend {
  automatic,  // nccl where each rank of a machine has a GPU of its own, else gloo
  gloo,
  nccl,  // CPU tensors still travel by gloo
  mpi,   // refused: LibTorch is built without it
};

struct InitOptions {
  // env://            MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE as a launcher exports them; without RANK and
  //                   WORLD_SIZE this process is a world of its own
  // tcp://host:port   rank 0 serves a store there
  // file:///path      a file that all ranks share; it must not be there before, and rank 0 removes it at the end
  std::string init_method = "env://";
  Backend backend = Backend::automatic;
  int rank = -1;                          // for tcp://, file:// and `store`; -1: from RANK
  int world_size = -1;                    // -1: from WORLD_SIZE
  c10::intrusive_ptr<c10d::Store> store;  // in place of init_method
  // For the others to join, and for each collective.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

// A handle; copies are the same group. Empty until assigned.
class ProcessGroup {
 public:
  ProcessGroup() = default;

  int rank() const;
  int world_size() const;
  int local_rank() const;        // among this job's processes of this machine
  int local_world_size() const;  // how many they are
  bool is_main_process() const { return rank() == 0; }
  // Where this rank's model belongs: its GPU under nccl, else the CPU.
  at::Device device() const;
  Backend backend() const;  // gloo or nccl
  std::chrono::milliseconds timeout() const;
  // The ranks of the default group, in this group's order.
  const std::vector<int>& global_ranks() const;

  explicit operator bool() const { return state_ != nullptr; }
  // For LibTorch's own interfaces. Tensors handed to it must be contiguous.
  const c10::intrusive_ptr<c10d::ProcessGroup>& c10d() const;
  // Shared by the ranks of this group only.
  c10::intrusive_ptr<c10d::Store> store() const;

  struct State;
  explicit ProcessGroup(std::shared_ptr<State> state) : state_(std::move(state)) {}

 private:
  std::shared_ptr<State> state_;
};

// Makes the default group. Once per process, until destroy_process_group().
ProcessGroup init_process_group(const InitOptions& options = {});
bool is_initialized();
ProcessGroup default_group();  // throws where there is none
// Waits for nobody. Groups made from it are of no use afterwards.
void destroy_process_group();

// A group of some ranks (of the default group, ascending). All ranks of the default group call it, in the same order;
// it is empty on those that are not in it.
ProcessGroup new_group(const std::vector<int>& ranks);
// The ranks of this machine. All ranks call it.
ProcessGroup machine_group();

}  // namespace ddprun
