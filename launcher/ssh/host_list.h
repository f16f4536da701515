// Reads the hosts of a job: --hosts "a:2,user@b:1", and host files as Open MPI, Hydra (MPICH, Intel MPI), DeepSpeed,
// PBS and Slurm write them. Pure.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/settings/values.h"

namespace ddprun::launcher {

constexpr int kHostsMax = 4096;
constexpr int kHostWorkersMax = 4096;

struct HostEntry {
  std::string name = {};            // as ssh takes it, "user@host"; IPv6 without brackets
  std::optional<int> workers = {};  // empty: --nproc-per-node
  bool operator==(const HostEntry&) const = default;
};

// "a:2,b,user@[fd99::1]:4", "node[01-04,7]:2" as Slurm writes it; an empty text has no hosts.
settings::Read<std::vector<HostEntry>> read_host_list(const std::string& text);

struct HostFile {
  std::vector<HostEntry> hosts = {};
  std::vector<std::string> mistakes = {};  // "hosts:3: ..."; one sentence each
};

// A line has a host or a list of them, and what Open MPI, DeepSpeed and Hydra have behind it: "a", "a:4",
// "a slots=4 max_slots=8", "a:4 binding=user:0 user=me", "node[01-04]"; "^a" leaves a host out, '#' begins a comment.
// Of a host on several lines each is a worker (PBS). `path` is for the sentences.
HostFile read_host_file(const std::string& path, const std::string& text);

}  // namespace ddprun::launcher
