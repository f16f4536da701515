// Decides on which CPUs each worker runs, as torchrun's --numa-binding does: near the GPU whose index is the local
// rank.
//
// Values in, values out; topology.h reads the machine. Where there are no GPUs the workers are spread over the memory
// nodes instead. A worker for which nothing sensible can be said is left unbound, and a sentence tells why.
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
  socket,        // all CPUs of the nodes of the socket that node belongs to
  exclusive,     // the node's cores shared out among the GPUs that are near it
  core_complex,  // one group of cores with a common last cache, another one for each GPU as long as there are some
};

struct Cpu {
  int socket = 0;
  int core = 0;   // the first CPU of its core
  int cache = 0;  // the first CPU with which it shares its last cache

  friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct Device {
  std::string name;              // "GPU 3 (0000:dc:00.0)"
  std::optional<int> node = {};  // the machine may not say
};

struct Topology {
  std::map<int, std::set<int>> nodes = {};  // the CPUs of each memory node
  std::map<int, Cpu> cpus = {};
  std::set<int> allowed_cpus = {}, allowed_nodes = {};
  std::vector<Device> devices = {};  // by local rank
};

struct Binding {
  std::vector<int> cpus = {}, memory_nodes = {};
  std::string why_not = {};  // a sentence where `cpus` is empty
};

// One for each local rank. `kind` is not none.
std::vector<Binding> plan_bindings(NumaBinding kind, const Topology& machine, int workers);

// "0-2,4" and back. What is no number ends the reading.
std::set<int> parse_cpu_list(const std::string& text);
std::string cpu_list(std::vector<int> cpus);

}  // namespace ddprun::agent
