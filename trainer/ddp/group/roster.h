// Who has joined a group, and what follows from it: who shares a machine, which GPU is whose, which backend fits all.
//
// Decides only. Every rank has the same roster, so all of them come to the same answer without asking each other.
#pragma once
#include <string>
#include <vector>

namespace ddprun {

struct Member {
  std::string machine;       // equal for two ranks exactly where they share one
  int gpus = 0;              // that CUDA shows to this rank
  std::string visible_gpus;  // CUDA_VISIBLE_DEVICES: ranks with other lists count other GPUs
  std::string backend;       // what it asks for: "auto", "gloo" or "nccl"
  bool operator==(const Member&) const = default;
};

using Roster = std::vector<Member>;  // by rank

// Member::machine. A launcher's nodes count as machines, also where several of them share one.
std::string machine_name(const std::string& identity, int node);  // -1: no launcher has told
// All ranks, whatever nodes they are of.
bool on_one_machine(const Roster& roster);

// Equal members are written once: a thousand ranks are some kilobytes. Throws std::exception on what is no roster.
std::string to_text(const Roster& roster);
Roster roster_from_text(const std::string& text);

// Of the machine that `rank` is on, ascending.
std::vector<int> ranks_beside(const Roster& roster, int rank);

// Which of the GPUs it is shown is this rank's own; -1: none.
int gpu_of(const Roster& roster, int rank);

struct BackendChoice {
  bool nccl = false;
  std::string problem = {};  // a sentence's middle: why what was asked for cannot be
};
BackendChoice choose_backend(const Roster& roster);

}  // namespace ddprun
