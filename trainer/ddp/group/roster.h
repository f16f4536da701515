// The ranks that joined a group, and what follows: which share a machine, each rank's GPU, the backend for all.
//
// Pure. Every rank has the same roster, so all get the same result without communication.
#pragma once
#include <string>
#include <vector>

namespace ddprun {

struct Member {
  std::string machine;       // equal for two ranks exactly if they share one
  int gpus = 0;              // visible to this rank
  std::string visible_gpus;  // their UUIDs, by commas; where the driver does not tell them, CUDA_VISIBLE_DEVICES
  std::string backend;       // requested: "auto", "gloo" or "nccl"
  bool operator==(const Member&) const = default;
};

using Roster = std::vector<Member>;  // by rank

// Member::machine. A launcher's nodes count as machines, even if several share one.
std::string machine_name(const std::string& identity, int node);  // -1: unknown
// Whether all ranks share one machine, whatever their nodes.
bool on_one_machine(const Roster& roster);

// Equal members are written once: a thousand ranks take some kilobytes. Parsing throws std::exception on invalid text.
std::string to_text(const Roster& roster);
Roster roster_from_text(const std::string& text);

// The ranks on the machine of `rank`, ascending.
std::vector<int> ranks_on_machine_of(const Roster& roster, int rank);

// This rank's own GPU among those visible to it: the first that no lower rank of its machine has; -1: none.
int gpu_of(const Roster& roster, int rank);

struct BackendChoice {
  bool nccl = false;
  std::string problem = {};  // middle of a sentence: why the request is impossible
  bool lacks_gpus = false;
};
BackendChoice choose_backend(const Roster& roster);

}  // namespace ddprun
