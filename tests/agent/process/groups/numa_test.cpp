#include "agent/process/groups/numa.h"

#include "agent/process/groups/topology.h"
#include "tests/support/test.h"

namespace {

std::set<int> range(int first, int last) {
  std::set<int> out;
  for (int i = first; i <= last; ++i) out.insert(i);
  return out;
}

// Two sockets of two nodes each, eight CPUs a node: four cores of two threads (c and c + 32 share a core), two cores
// share a cache.
Topology large() {
  Topology out;
  for (int node = 0; node < 4; ++node)
    for (int core = node * 4; core < node * 4 + 4; ++core)
      for (const int cpu : {core, core + 32}) {
        out.nodes[node].insert(cpu);
        out.cpus[cpu] = {node / 2, core, core / 2 * 2};
        out.allowed_cpus.insert(cpu);
      }
  out.allowed_nodes = range(0, 3);
  return out;
}

Topology with_devices(Topology machine, const std::vector<int>& nodes) {
  for (const int node : nodes)
    machine.devices.push_back(
        {"GPU " + std::to_string(machine.devices.size()), node >= 0 ? std::optional(node) : std::nullopt});
  return machine;
}

std::vector<std::string> planned(NumaBinding kind, const Topology& machine, int workers) {
  std::vector<std::string> out;
  for (const Binding& one : plan_bindings(kind, machine, workers))
    out.push_back(one.cpus.empty() ? one.why_not : cpu_list(one.cpus) + " mem " + cpu_list(one.memory_nodes));
  return out;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("lists of CPUs are read and written as the kernel has them", "[numa]") {
  CHECK(parse_cpu_list("0-2,4,6-7\n") == std::set{0, 1, 2, 4, 6, 7});
  CHECK(parse_cpu_list("\n").empty());
  CHECK(parse_cpu_list("3").size() == 1);
  CHECK(parse_cpu_list("x") == std::set<int>{});
  CHECK(parse_cpu_list("1,x") == std::set{1});
  CHECK(parse_cpu_list("1-99999999999").empty());
  CHECK(cpu_list({0, 1, 2, 4, 6, 7}) == "0-2,4,6-7");
  CHECK(cpu_list({}).empty());
}

TEST_CASE("a worker is bound to the node, or to the socket, of the GPU with its local rank", "[numa]") {
  const Topology machine = with_devices(large(), {2, 0});
  CHECK(planned(NumaBinding::node, machine, 2) == Lines{"8-11,40-43 mem 2", "0-3,32-35 mem 0"});
  CHECK(planned(NumaBinding::socket, machine, 2) == Lines{"8-15,40-47 mem 2-3", "0-7,32-39 mem 0-1"});
}

TEST_CASE("exclusive binding shares whole cores out among the GPUs near a node, the first getting one more", "[numa]") {
  const Topology machine = with_devices(large(), {1, 1, 1, 3});
  CHECK(planned(NumaBinding::exclusive, machine, 4) ==
        Lines{"4-5,36-37 mem 1", "6,38 mem 1", "7,39 mem 1", "12-15,44-47 mem 3"});
  // Also GPUs that no worker uses have their share, as under torchrun.
  CHECK(planned(NumaBinding::exclusive, machine, 1) == Lines{"4-5,36-37 mem 1"});
  // Given up where a node has more GPUs than cores.
  CHECK(planned(NumaBinding::exclusive, with_devices(large(), {0, 0, 0, 0, 0}), 1) ==
        Lines{"memory node 0 has 4 cores for 5 workers or GPUs; --numa-binding=node lets them share."});
}

TEST_CASE("core-complex binding gives each GPU a cache of its own as long as there are some", "[numa]") {
  Topology machine = with_devices(large(), {0, 0, 0});
  CHECK(planned(NumaBinding::core_complex, machine, 3) ==
        Lines{"0-1,32-33 mem 0", "2-3,34-35 mem 0", "0-1,32-33 mem 0"});
  machine.allowed_cpus.erase(0);  // the complex with more CPUs comes first
  CHECK(planned(NumaBinding::core_complex, machine, 2) == Lines{"2-3,34-35 mem 0", "1,32-33 mem 0"});
}

TEST_CASE("only CPUs and nodes that we may use are given away", "[numa]") {
  Topology machine = with_devices(large(), {0, 1});
  machine.allowed_cpus = {2, 3, 34};
  machine.allowed_nodes = {1};
  CHECK(planned(NumaBinding::node, machine, 2) ==
        Lines{"2-3,34 mem ", "ddprun may use no CPU of memory node 1, to which GPU 1 belongs."});
}

TEST_CASE("a GPU whose node is not told, or that is not there, leaves its worker unbound", "[numa]") {
  CHECK(planned(NumaBinding::node, with_devices(large(), {-1}), 2) ==
        Lines{"the machine does not say to which memory node GPU 0 belongs.",
              "there is no GPU for local rank 1: 1 are visible."});
}

TEST_CASE("without GPUs the workers are spread over the nodes", "[numa]") {
  CHECK(planned(NumaBinding::node, large(), 2) == Lines{"0-3,32-35 mem 0", "8-11,40-43 mem 2"});
  CHECK(planned(NumaBinding::exclusive, large(), 8) == Lines{"0-1,32-33 mem 0", "2-3,34-35 mem 0", "4-5,36-37 mem 1",
                                                             "6-7,38-39 mem 1", "8-9,40-41 mem 2", "10-11,42-43 mem 2",
                                                             "12-13,44-45 mem 3", "14-15,46-47 mem 3"});
  Topology one_node;
  one_node.nodes[0] = one_node.allowed_cpus = range(0, 3);
  one_node.allowed_nodes = {0};
  CHECK(planned(NumaBinding::node, one_node, 2) == Lines{"0-3 mem 0", "0-3 mem 0"});
  CHECK(planned(NumaBinding::socket, one_node, 1) == Lines{"0-3 mem 0"});
  CHECK(planned(NumaBinding::exclusive, one_node, 2) == Lines{"0-1 mem 0", "2-3 mem 0"});
  CHECK(planned(NumaBinding::node, Topology{}, 1) == Lines{"the machine does not say which CPUs it has."});
}

TEST_CASE("devices are chosen as CUDA_VISIBLE_DEVICES has them", "[numa]") {
  const std::vector<std::string> ids{"GPU-aa1", "GPU-ab2", "GPU-c"};
  using Indices = std::vector<std::size_t>;
  CHECK(visible_devices(nullptr, ids) == Indices{0, 1, 2});
  CHECK(visible_devices("2,0", ids) == Indices{2, 0});
  CHECK(visible_devices("GPU-ab, GPU-aa1", ids) == Indices{1, 0});
  CHECK(visible_devices("1,7,0", ids) == Indices{1});
  CHECK(visible_devices("", ids).empty());
  CHECK(visible_devices("-1", ids).empty());
  CHECK(visible_devices("MIG-1", ids).empty());
}

TEST_CASE("a machine is read from its files", "[numa]") {
  const TempFolder root;
  const auto write = [&](const std::string& name, const std::string& text) {
    fs::create_directories((root.path() / name).parent_path());
    std::ofstream(root.path() / name) << text << "\n";
  };
  write("proc/self/status", "Name:\tx\nCpus_allowed_list:\t1-3\nMems_allowed_list:\t0-1");
  write("sys/devices/system/node/node0/cpulist", "0-1");
  write("sys/devices/system/node/node1/cpulist", "2-3");
  write("sys/devices/system/node/node_x", "not a node");
  for (int cpu = 0; cpu < 4; ++cpu) {
    const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/";
    write(folder + "topology/physical_package_id", std::to_string(cpu / 2));
    write(folder + "topology/thread_siblings_list", cpu < 2 ? "0-1" : "2-3");
    for (const auto& [index, level, type, cpus] :
         {std::tuple{"0", "1", "Data", std::to_string(cpu)}, std::tuple{"1", "9", "Instruction", std::string("0-9")},
          std::tuple{"3", "3", "Unified", std::string("0-3")}}) {
      const std::string cache = folder + "cache/index" + index + "/";
      write(cache + "level", level);
      write(cache + "type", type);
      write(cache + "shared_cpu_list", cpus);
    }
  }
  for (const auto& [address, node] : {std::pair{"0000:04:00.0", "1"}, std::pair{"0000:dc:00.0", "-1"}}) {
    write(std::string("proc/driver/nvidia/gpus/") + address + "/information",
          std::string("GPU UUID: \t GPU-") + address);
    write(std::string("sys/bus/pci/devices/") + address + "/numa_node", node);
  }
  const auto read = [&](NumaBinding kind, const char* visible) {
    return read_topology(kind, {.cuda = visible}, root.path());
  };
  const Topology machine = read(NumaBinding::socket, "1,0");
  CHECK(machine.nodes == std::map<int, std::set<int>>{{0, {0, 1}}, {1, {2, 3}}});
  CHECK(machine.cpus == std::map<int, Cpu>{{1, {0, 1, 1}}, {2, {1, 2, 2}}, {3, {1, 3, 3}}});
  CHECK(read(NumaBinding::exclusive, "").cpus.at(3) == Cpu{0, 2, 3});
  CHECK(read(NumaBinding::core_complex, "").cpus.at(3) == Cpu{0, 3, 0});
  CHECK(machine.allowed_nodes == std::set{0, 1});
  REQUIRE(machine.devices.size() == 2);
  CHECK_FALSE(machine.devices[0].node);
  CHECK(machine.devices[0].name == "GPU 1 (0000:dc:00.0)");
  CHECK(machine.devices[1].node == 1);
  CHECK(read(NumaBinding::node, "GPU-0000:04").devices.at(0).node == 1);
}

TEST_CASE("this machine's CPUs can be given to workers", "[numa]") {
  for (const auto kind : {NumaBinding::node, NumaBinding::socket, NumaBinding::core_complex})
    for (const Binding& one : plan_bindings(kind, read_topology(kind, {.cuda = ""}), 2)) CHECK_FALSE(one.cpus.empty());
}
