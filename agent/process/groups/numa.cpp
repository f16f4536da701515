#include "agent/process/groups/numa.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr int kMostCpus = 1 << 16;  // a malformed list must not fill our memory

// The worker's own node, its place among those that share the node, and their number.
struct Seat {
  int node = 0, place = 0, sharing = 1;
};

std::set<int> common(const std::set<int>& a, const std::set<int>& b) {
  std::set<int> out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::inserter(out, out.end()));
  return out;
}

Cpu cpu_of(const Topology& topology, int number) {
  const auto found = topology.cpus.find(number);
  return found == topology.cpus.end() ? Cpu{0, number, number} : found->second;
}

std::set<int> usable(const Topology& topology, int node) {
  const auto found = topology.nodes.find(node);
  return found == topology.nodes.end() ? std::set<int>() : common(found->second, topology.allowed_cpus);
}

// Groups of the node's usable CPUs with the same `key`.
std::vector<std::vector<int>> groups(const Topology& topology, int node, int Cpu::*key) {
  std::map<int, std::vector<int>> by_key;
  for (const int cpu : usable(topology, node)) by_key[cpu_of(topology, cpu).*key].push_back(cpu);
  std::vector<std::vector<int>> out;
  for (auto& [first, cpus] : by_key) out.push_back(std::move(cpus));
  return out;
}

std::set<int> nodes_of_socket(const Topology& topology, int node) {
  const int socket = cpu_of(topology, *usable(topology, node).begin()).socket;
  std::set<int> out;
  for (const auto& [other, cpus] : topology.nodes) {
    const std::set<int> some = usable(topology, other);
    if (!some.empty() && cpu_of(topology, *some.begin()).socket == socket) out.insert(other);
  }
  return out;
}

std::vector<int> cpus_of(const Topology& topology, const std::set<int>& nodes) {
  std::set<int> all;
  for (const int node : nodes) all.merge(usable(topology, node));
  return {all.begin(), all.end()};
}

// The node's cores in order; if they do not divide evenly, the first ones get one more.
Binding share_of_cores(const Topology& topology, const Seat& seat) {
  const auto cores = groups(topology, seat.node, &Cpu::core);
  const int count = static_cast<int>(cores.size());
  if (count < seat.sharing)
    return {{},
            {},
            "memory node " + std::to_string(seat.node) + " has " + std::to_string(count) + " cores for " +
                std::to_string(seat.sharing) + " workers or GPUs; --numa-binding=node lets them share."};
  const int each = count / seat.sharing, rest = count % seat.sharing;
  const int first = seat.place * each + std::min(seat.place, rest);
  Binding out;
  for (int i = first; i < first + each + (seat.place < rest); ++i)
    out.cpus.insert(out.cpus.end(), cores[static_cast<std::size_t>(i)].begin(),
                    cores[static_cast<std::size_t>(i)].end());
  std::sort(out.cpus.begin(), out.cpus.end());
  return out;
}

// Larger complexes first.
Binding complex_of_cores(const Topology& topology, const Seat& seat) {
  auto complexes = groups(topology, seat.node, &Cpu::cache);
  std::stable_sort(complexes.begin(), complexes.end(),
                   [](const auto& a, const auto& b) { return a.size() > b.size(); });
  return {complexes[static_cast<std::size_t>(seat.place) % complexes.size()], {}, {}};
}

Binding bind(NumaBinding kind, const Topology& topology, const Seat& seat) {
  const std::set<int> near = kind == NumaBinding::socket ? nodes_of_socket(topology, seat.node) : std::set{seat.node};
  Binding out = kind == NumaBinding::exclusive      ? share_of_cores(topology, seat)
                : kind == NumaBinding::core_complex ? complex_of_cores(topology, seat)
                                                    : Binding{cpus_of(topology, near), {}, {}};
  const std::set<int> memory = common(near, topology.allowed_nodes);
  if (!out.cpus.empty()) out.memory_nodes.assign(memory.begin(), memory.end());
  return out;
}

// Without GPUs: neighbouring ranks share a node, and each node gets an equal part.
Seat seat_on_nodes(const std::vector<int>& nodes, int local_rank, int workers) {
  const int count = static_cast<int>(nodes.size());
  const auto node_of = [&](int rank) { return nodes[static_cast<std::size_t>(rank * count / workers)]; };
  Seat out{node_of(local_rank), 0, 0};
  for (int rank = 0; rank < workers; ++rank) {
    if (node_of(rank) != out.node) continue;
    out.place += rank < local_rank;
    ++out.sharing;
  }
  return out;
}

// As in torchrun, all GPUs near a node share it, even those that no worker uses.
Seat seat_at_device(const Topology& topology, std::size_t device) {
  Seat out{*topology.devices[device].node, 0, 0};
  for (std::size_t other = 0; other < topology.devices.size(); ++other) {
    if (topology.devices[other].node != out.node) continue;
    out.place += other < device;
    ++out.sharing;
  }
  return out;
}

std::string why_unseated(const Topology& topology, std::size_t local_rank) {
  if (local_rank >= topology.devices.size())
    return "there is no GPU for local rank " + std::to_string(local_rank) + ": " +
           std::to_string(topology.devices.size()) + " are visible.";
  const Device& device = topology.devices[local_rank];
  if (!device.node) return "the machine does not say to which memory node " + device.name + " belongs.";
  if (usable(topology, *device.node).empty())
    return "ddprun may use no CPU of memory node " + std::to_string(*device.node) + ", to which " + device.name +
           " belongs.";
  return {};
}

}  // namespace

std::vector<Binding> plan_bindings(NumaBinding kind, const Topology& topology, int workers) {
  std::vector<int> nodes;
  for (const auto& [node, cpus] : topology.nodes)
    if (!usable(topology, node).empty()) nodes.push_back(node);
  std::vector<Binding> out;
  for (int local_rank = 0; local_rank < workers; ++local_rank) {
    const auto device = static_cast<std::size_t>(local_rank);
    if (topology.devices.empty()) {
      out.push_back(nodes.empty() ? Binding{{}, {}, "the machine does not say which CPUs it has."}
                                  : bind(kind, topology, seat_on_nodes(nodes, local_rank, workers)));
    } else if (std::string why = why_unseated(topology, device); !why.empty()) {
      out.push_back({{}, {}, std::move(why)});
    } else {
      out.push_back(bind(kind, topology, seat_at_device(topology, device)));
    }
  }
  return out;
}

std::set<int> parse_cpu_list(const std::string& text) {
  std::set<int> out;
  const char *at = text.data(), *const end = at + text.size();
  const auto number = [&](int& to) {
    const auto [rest, error] = std::from_chars(at, end, to);
    at = rest;
    return error == std::errc() && to >= 0 && to < kMostCpus;
  };
  for (int first = 0; number(first); ++at) {
    int last = first;
    if (at != end && *at == '-' && (++at, !number(last))) break;
    for (int cpu = first; cpu <= last; ++cpu) out.insert(cpu);
    if (at == end || *at != ',') break;
  }
  return out;
}

std::string cpu_list(std::vector<int> cpus) {
  std::sort(cpus.begin(), cpus.end());
  std::string out;
  for (std::size_t i = 0; i < cpus.size();) {
    std::size_t last = i;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1) ++last;
    out += (out.empty() ? "" : ",") + std::to_string(cpus[i]);
    if (last > i) out += "-" + std::to_string(cpus[last]);
    i = last + 1;
  }
  return out;
}

}  // namespace ddprun::agent
