#include "agent/process/groups/gpu_files.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>

#include "agent/process/files/file_content.h"
#include "agent/process/files/numbered_files.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kIntel = "0x8086", kComposite = "COMPOSITE";

// Of a processor of AMD, by gfx_target_version: gfx90c is 90012.
constexpr std::uint64_t kOnProcessors[] = {70000,  80001,  90002,  90009,  90012,  100103, 100303, 100305,
                                           100306, 100307, 110003, 110500, 110501, 110502, 110503};

// Lines of a name and a number.
std::map<std::string, std::uint64_t> read_properties(const fs::path& file) {
  std::map<std::string, std::uint64_t> out;
  std::istringstream lines(file_content(file));
  std::string name;
  for (std::uint64_t value; lines >> name >> value;) out[name] = value;
  return out;
}

bool may_open(const fs::path& device) { return access(device.c_str(), R_OK | W_OK) == 0; }

std::string pci_address(std::uint64_t domain, std::uint64_t location) {
  char text[48];
  std::snprintf(text, sizeof text, "%04x:%02x:%02x.%x", static_cast<unsigned>(domain),
                static_cast<unsigned>(location >> 8 & 0xff), static_cast<unsigned>(location >> 3 & 0x1f),
                static_cast<unsigned>(location & 7));
  return text;
}

std::string rocm_id(std::uint64_t unique_id) {
  char text[32];
  std::snprintf(text, sizeof text, "GPU-%016llx", static_cast<unsigned long long>(unique_id));
  return unique_id == 0 ? "" : text;
}

bool is_composite(const GpuVariables& variables) { return variables.hierarchy && variables.hierarchy == kComposite; }

// xe has a folder for each tile at the device, i915 at the card.
std::size_t tiles_of(const fs::path& card) {
  const std::size_t xe = numbered(card / "device", "tile").size();
  return std::max<std::size_t>(1, xe > 0 ? xe : numbered(card / "gt", "gt").size());
}

}  // namespace

GpuVariables gpu_variables() {
  return {.cuda = std::getenv("CUDA_VISIBLE_DEVICES"),
          .hip = std::getenv("HIP_VISIBLE_DEVICES"),
          .rocr = std::getenv("ROCR_VISIBLE_DEVICES"),
          .mask = std::getenv("ZE_AFFINITY_MASK"),
          .hierarchy = std::getenv("ZE_FLAT_DEVICE_HIERARCHY")};
}

std::vector<std::string> ids_of(const std::vector<GpuFile>& gpus) {
  std::vector<std::string> ids;
  for (const GpuFile& gpu : gpus) ids.push_back(gpu.id);
  return ids;
}

std::vector<GpuFile> amd_gpus(const fs::path& root) {
  std::vector<GpuFile> out;
  if (!may_open(root / "dev/kfd")) return out;
  for (const auto& [number, node] : numbered(root / "sys/class/kfd/kfd/topology/nodes", "")) {
    auto properties = read_properties(node / "properties");  // unreadable where a container has not got this GPU
    if (properties["simd_count"] == 0) continue;             // a processor
    if (std::ranges::find(kOnProcessors, properties["gfx_target_version"]) != std::end(kOnProcessors)) continue;
    const std::uint64_t minor = properties["drm_render_minor"];
    if (minor > 0 && !may_open(root / "dev/dri" / ("renderD" + std::to_string(minor)))) continue;
    out.push_back({rocm_id(properties["unique_id"]), pci_address(properties["domain"], properties["location_id"])});
  }
  return out;
}

std::vector<GpuFile> intel_gpus(const GpuVariables& variables, const fs::path& root) {
  std::vector<GpuFile> out;
  std::error_code none;
  for (const auto& [number, card] : numbered(root / "sys/class/drm", "card")) {
    if (!file_content(card / "device/vendor").starts_with(kIntel)) continue;
    const std::string address = fs::canonical(card / "device", none).filename();
    const bool on_processor = address.find(":00:") != std::string::npos;
    const auto nodes = numbered(card / "device/drm", "renderD");
    if (on_processor || nodes.empty() || !may_open(root / "dev/dri" / nodes.begin()->second.filename())) continue;
    out.insert(out.end(), is_composite(variables) ? 1 : tiles_of(card), {"", address});
  }
  std::stable_sort(out.begin(), out.end(), [](const GpuFile& a, const GpuFile& b) { return a.address < b.address; });
  return out;
}

std::vector<GpuFile> left_by_rocr(const std::vector<GpuFile>& gpus, const GpuVariables& variables) {
  std::vector<GpuFile> out;
  for (const std::size_t index : visible_devices(variables.rocr, ids_of(gpus))) out.push_back(gpus[index]);
  return out;
}

const char* chosen_of_rocr(const GpuVariables& variables) { return variables.hip ? variables.hip : variables.cuda; }

std::vector<GpuFile> left_by_mask(const std::vector<GpuFile>& gpus, const GpuVariables& variables) {
  if (!variables.mask || !*variables.mask) return gpus;  // Level Zero takes an empty one for none
  std::istringstream entries(variables.mask);
  std::vector<std::uint64_t> taken;
  std::vector<GpuFile> out;
  for (std::string entry; std::getline(entries, entry, ',');) {
    const auto index = number_behind(std::string_view(entry).substr(0, entry.find('.')), "");
    if (!index || *index >= gpus.size()) break;
    if (std::find(taken.begin(), taken.end(), *index) != taken.end()) continue;
    taken.push_back(*index);
    out.push_back(gpus[*index]);
  }
  return out;
}

std::vector<std::size_t> visible_devices(const char* visible, const std::vector<std::string>& ids) {
  std::vector<std::size_t> out;
  if (!visible) {
    for (std::size_t i = 0; i < ids.size(); ++i) out.push_back(i);
    return out;
  }
  std::istringstream entries(visible);
  for (std::string entry; std::getline(entries, entry, ',');) {
    std::erase(entry, ' ');
    const auto number = number_behind(entry, "");
    const auto by_id = std::find_if(ids.begin(), ids.end(), [&](const std::string& id) {
      return entry.starts_with("GPU-") && id.starts_with(entry);
    });
    const std::size_t index = number ? *number : static_cast<std::size_t>(by_id - ids.begin());
    if (index >= ids.size()) break;
    out.push_back(index);
  }
  return out;
}

}  // namespace ddprun::agent
