// Decides on which CPUs each worker runs, as torchrun's --numa-binding does: near the GPU whose index is the local
// rank.
//
// Values in, values out; topology.h reads the machine. Without GPUs the workers are spread over the memory nodes
// instead. A worker without a sensible choice is left unbound, and a sentence says why.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace ddprun::agent {

enum class NumaBinding {
  none,
  node,          // all CPUs of the GPU's memory node
  socket,        // all CPUs of the nodes of that node's socket
  exclusive,     // the node's cores divided among the GPUs near it
  core_complex,  // one group of cores with a common last-level cache, one per GPU if there are enough
};

struct Cpu {
  int socket = 0;
  int core = 0;   // the first CPU of its core
  int cache = 0;  // the first CPU with which it shares its last-level cache

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct Device {
  std::string name;              // "GPU 3 (0000:dc:00.0)"
  std::optional<int> node = {};  // empty: unknown
};

struct Topology {
  std::map<int, std::set<int>> nodes = {};  // the CPUs of each memory node
  std::map<int, Cpu> cpus = {};
  std::set<int> allowed_cpus = {}, allowed_nodes = {};
  std::vector<Device> devices = {};  // by local rank
};

struct Binding {
  std::vector<int> cpus = {}, memory_nodes = {};
  std::string why_not = {};  // a sentence if `cpus` is empty
};

// One for each local rank. `kind` must not be none.
std::vector<Binding> plan_bindings(NumaBinding kind, const Topology& machine, int workers);

// "0-2,4" and back. Parsing stops at anything but a number.
std::set<int> parse_cpu_list(const std::string& text);
std::string cpu_list(std::vector<int> cpus);

}  // namespace ddprun::agent
