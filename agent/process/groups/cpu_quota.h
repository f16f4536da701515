// How many CPUs the control groups of this process let it use at a time: cpu.max, or version 1's cpu.cfs_quota_us.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

namespace ddprun::agent {

// "150000 100000" is 1.5 CPUs; "max 100000", and version 1's -1, are no limit.
std::optional<double> cpus_of_quota(const std::string& quota_and_period);

// The lowest quota of our group and its ancestors; empty: none. `root`: another prefix of /proc and /sys, for tests.
std::optional<double> read_cpu_quota(const std::filesystem::path& root = "/");

// The whole CPUs, at least one, among `affinity` that a quota leaves.
int cpus_within(int affinity, std::optional<double> quota);

}  // namespace ddprun::agent
