#include "launcher/config/visible_gpus.h"

#include <algorithm>
#include <cstdlib>

#include "agent/machine/nvml.h"
#include "agent/process/files/numbered_files.h"

namespace ddprun::launcher {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> entries_of(const std::string& list) {
  std::vector<std::string> out{""};
  for (const char c : list)
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

// As strtoul: "1gpu" is 1. -1: no number.
long leading_number(const std::string& entry) {
  const char* const text = entry.c_str();
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  return end == text ? -1 : number;
}

int count_indices(const std::vector<std::string>& entries, std::size_t gpus) {
  std::vector<long> found;
  bool in_range = true;
  for (const std::string& entry : entries) {
    const long index = leading_number(entry);
    if (std::find(found.begin(), found.end(), index) != found.end()) return 0;
    if (index < 0) break;
    found.push_back(index);
  }
  int count = 0;
  for (const long index : found) {
    in_range = in_range && static_cast<std::size_t>(index) < gpus;
    count += in_range;
  }
  return count;
}

// Those of the GPUs whose UUID begins so; without NVML any may be meant.
int count_uuids(const std::vector<std::string>& entries, const std::vector<std::string>& uuids) {
  const bool known = std::none_of(uuids.begin(), uuids.end(), [](const std::string& uuid) { return uuid.empty(); });
  std::vector<std::string> found;
  for (const std::string& entry : entries) {
    if (!entry.starts_with("GPU-")) break;
    std::string gpu = entry;
    if (known) {
      const auto is_it = [&](const std::string& uuid) { return uuid.starts_with(entry); };
      if (std::count_if(uuids.begin(), uuids.end(), is_it) != 1) break;
      gpu = *std::find_if(uuids.begin(), uuids.end(), is_it);
    }
    if (std::find(found.begin(), found.end(), gpu) != found.end()) return 0;
    found.push_back(gpu);
  }
  return static_cast<int>(std::min(found.size(), uuids.size()));
}

}  // namespace

int count_gpus(const agent::GpuVariables& variables) {
  if (const auto nvidia = gpus_of_machine(); !nvidia.empty()) return count_visible(variables.cuda, nvidia);
  if (const auto amd = agent::amd_gpus(); !amd.empty())
    return count_visible(chosen_of_rocr(variables), ids_of(left_by_rocr(amd, variables)));
  return static_cast<int>(left_by_mask(agent::intel_gpus(variables), variables).size());
}

std::string all_of_intel(const agent::GpuVariables& variables) {
  const std::size_t count = agent::intel_gpus(variables).size();
  if (count == 0 || !agent::amd_gpus().empty() || !gpus_of_machine().empty()) return {};  // NVML may take a second
  std::string out;
  for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + std::to_string(i);
  return out;
}

std::vector<std::string> gpus_of_machine() {
  const agent::Nvml nvml = agent::ask_nvml();
  if (nvml.state != agent::Nvml::answers) return gpus_by_files();
  std::vector<std::string> uuids;
  for (const agent::NvmlGpu& gpu : nvml.gpus) uuids.push_back(gpu.uuid);
  return uuids;
}

std::vector<std::string> gpus_by_files(const fs::path& devices) {
  return std::vector<std::string>(agent::numbered(devices, "nvidia").size());
}

int count_visible(const char* visible, const std::vector<std::string>& uuids) {
  if (!visible) return static_cast<int>(uuids.size());
  const std::vector<std::string> entries = entries_of(visible);
  if (entries[0].starts_with("MIG-")) return uuids.empty() ? 0 : 1;
  return entries[0].starts_with("GPU-") ? count_uuids(entries, uuids) : count_indices(entries, uuids.size());
}

}  // namespace ddprun::launcher
