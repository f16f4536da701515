// Whether the kernel's out-of-memory killer struck between two readings of its counters, and whose limit it enforced.
//
// Pure: the counters are read in evidence.h.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddprun::agent {

// A memory control group. In version 1 a kill counts in the victim's own group alone, in version 2 also in all around
// it.
struct MemoryGroup {
  std::string name;
  std::uint64_t kills = 0;
  std::uint64_t limit_hits = 0;                   // how often its own limit stopped an allocation
  std::optional<std::uint64_t> limit_bytes = {};  // empty: none
};

struct OomCounts {
  std::vector<MemoryGroup> groups = {};       // ddprun's own first, then those around it
  std::optional<std::uint64_t> machine = {};  // kills on the whole machine; empty: not told here
};

// Where a group's files lie.
struct MemoryGroupFolder {
  std::string folder, name;
  bool version1 = false;
};

// From the content of /proc/self/cgroup and /proc/self/mountinfo; own group first. Empty where no memory group is
// mounted.
std::vector<MemoryGroupFolder> memory_groups(const std::string& cgroup, const std::string& mountinfo);

// The number behind `key` in lines of "key number", as in memory.events, memory.oom_control and /proc/vmstat.
std::optional<std::uint64_t> counter(const std::string& content, const std::string& key);

// A limit's file: a number of bytes; "max" and version 1's largest number mean none.
std::optional<std::uint64_t> memory_limit(const std::string& content);

// "memory ran out: the kernel killed in control group /job (count 0 -> 1), which may use 64 MiB"; empty where no
// counter moved.
std::string out_of_memory(const OomCounts& before, const OomCounts& after);

// "64 MiB", "1.5 GiB"
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace ddprun::agent
