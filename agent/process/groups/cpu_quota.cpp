#include "agent/process/groups/cpu_quota.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "agent/process/files/regular_file.h"
#include "agent/process/groups/own_groups.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kFileMax = 1 << 20;

std::string content(const std::string& path) { return beginning_of_file(path, kFileMax); }

std::string quota_and_period(const ControlGroup& group, const std::string& root) {
  const std::string folder = root + group.folder;
  if (!group.version1) return content(folder + "/cpu.max");
  return content(folder + "/cpu.cfs_quota_us") + " " + content(folder + "/cpu.cfs_period_us");
}

}  // namespace

std::optional<double> cpus_of_quota(const std::string& quota_and_period) {
  const auto words = words_in(quota_and_period);
  if (words.size() < 2) return {};
  // Not above zero: "max", or version 1's -1.
  const std::int64_t quota = std::strtoll(words[0].data(), nullptr, 10),
                     period = std::strtoll(words[1].data(), nullptr, 10);
  if (quota <= 0 || period <= 0) return {};
  return static_cast<double>(quota) / static_cast<double>(period);
}

std::optional<double> read_cpu_quota(const fs::path& root) {
  std::optional<double> lowest;
  const std::string at = root == "/" ? "" : root.string();
  for (const ControlGroup& group : own_groups(at).cpu)
    if (const auto cpus = cpus_of_quota(quota_and_period(group, at))) lowest = std::min(lowest.value_or(*cpus), *cpus);
  return lowest;
}

int cpus_within(int affinity, std::optional<double> quota) {
  const double cpus = quota ? std::min<double>(affinity, *quota) : affinity;
  return std::max(1, static_cast<int>(cpus));
}

}  // namespace ddprun::agent
