#include "agent/process/groups/topology.h"

#include <algorithm>
#include <sstream>

#include "agent/process/files/file_content.h"
#include "agent/process/files/numbered_files.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) out.push_back(entry.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

std::optional<int> number_in(const fs::path& file) {
  std::istringstream in(file_content(file));
  int number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

// The first CPU of a list in a file; else the CPU itself.
int first_in(const fs::path& file, int cpu) {
  const std::set<int> all = parse_cpu_list(file_content(file));
  return all.empty() ? cpu : *all.begin();
}

int last_cache(const fs::path& cpu_folder, int cpu) {
  int level = -1, first = cpu;
  for (const std::string& name : names_in(cpu_folder / "cache")) {
    const fs::path cache = cpu_folder / "cache" / name;
    const auto its_level = number_in(cache / "level");
    if (!its_level || *its_level <= level || file_content(cache / "type").rfind("Instruction", 0) == 0) continue;
    level = *its_level;
    first = first_in(cache / "shared_cpu_list", cpu);
  }
  return first;
}

// Only what this binding needs: a machine with hundreds of CPUs has thousands of such files.
Cpu read_cpu(const fs::path& folder, int cpu, NumaBinding kind) {
  Cpu out{0, cpu, cpu};
  if (kind == NumaBinding::socket) out.socket = number_in(folder / "topology/physical_package_id").value_or(0);
  if (kind == NumaBinding::exclusive) out.core = first_in(folder / "topology/thread_siblings_list", cpu);
  if (kind == NumaBinding::core_complex) out.cache = last_cache(folder, cpu);
  return out;
}

std::map<int, std::set<int>> read_nodes(const fs::path& system) {
  std::map<int, std::set<int>> out;
  for (const auto& [node, folder] : numbered(system / "node", "node"))
    out[static_cast<int>(node)] = parse_cpu_list(file_content(folder / "cpulist"));
  if (out.empty()) out[0] = parse_cpu_list(file_content(system / "cpu/online"));  // a kernel without NUMA
  return out;
}

// The value of "Name:\tvalue" in a file of such lines.
std::string line_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(name + ":", 0) == 0) return line.substr(line.find_first_not_of(" \t", name.size() + 1));
  return {};
}

std::vector<GpuFile> nvidia_gpus(const fs::path& root) {
  const fs::path driver = root / "proc/driver/nvidia/gpus";
  const std::vector<std::string> addresses = names_in(driver);
  std::vector<GpuFile> out;
  for (const std::string& address : addresses)
    out.push_back({line_of(file_content(driver / address / "information"), "GPU UUID"), address});
  return out;
}

Device device_of(const fs::path& root, std::size_t index, const std::string& address) {
  const auto node = number_in(root / "sys/bus/pci/devices" / address / "numa_node");
  return {"GPU " + std::to_string(index) + " (" + address + ")", node >= 0 ? node : std::nullopt};
}

std::vector<Device> devices_of(const fs::path& root, const std::vector<GpuFile>& gpus, const char* visible) {
  std::vector<Device> out;
  for (const std::size_t index : visible_devices(visible, ids_of(gpus)))
    out.push_back(device_of(root, index, gpus[index].address));
  return out;
}

std::vector<Device> read_devices(const fs::path& root, const GpuVariables& variables) {
  if (const auto nvidia = nvidia_gpus(root); !nvidia.empty()) return devices_of(root, nvidia, variables.cuda);
  if (const auto amd = amd_gpus(root); !amd.empty())
    return devices_of(root, left_by_rocr(amd, variables), chosen_of_rocr(variables));
  return devices_of(root, left_by_mask(intel_gpus(variables, root), variables), nullptr);
}

}  // namespace

Topology read_topology(NumaBinding kind, const GpuVariables& variables, const fs::path& root) {
  const fs::path system = root / "sys/devices/system";
  const std::string status = file_content(root / "proc/self/status");
  Topology out;
  out.nodes = read_nodes(system);
  out.allowed_cpus = parse_cpu_list(line_of(status, "Cpus_allowed_list"));
  out.allowed_nodes = parse_cpu_list(line_of(status, "Mems_allowed_list"));
  for (const int cpu : out.allowed_cpus)
    if (kind != NumaBinding::node) out.cpus[cpu] = read_cpu(system / "cpu" / ("cpu" + std::to_string(cpu)), cpu, kind);
  out.devices = read_devices(root, variables);
  return out;
}

}  // namespace ddprun::agent
