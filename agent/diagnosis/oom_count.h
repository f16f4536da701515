// Finds whether the kernel's out-of-memory killer ran between two readings of its counters, and whose limit was hit.
//
// Pure: the counters are read in evidence.h.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::agent {

// A memory control group. Version 1 counts a kill in the victim's own group only, version 2 also in all its ancestors.
struct MemoryGroup {
  std::string name;
  std::uint64_t kills = 0;
  std::uint64_t limit_hits = 0;                   // how often its own limit stopped an allocation
  std::optional<std::uint64_t> limit_bytes = {};  // empty: no limit
};

struct OomCounts {
  std::vector<MemoryGroup> groups = {};       // ddprun's own first, then its ancestors
  std::optional<std::uint64_t> machine = {};  // kills on the whole machine; empty: unknown
};

// The number behind `key` in lines of "key number", as in memory.events, memory.oom_control and /proc/vmstat.
std::optional<std::uint64_t> counter(const std::string& content, const std::string& key);

// Reads a limit: a number of bytes; "max" and version 1's largest number mean no limit.
std::optional<std::uint64_t> memory_limit(const std::string& content);

// "memory ran out: the kernel killed in control group /job (count 0 -> 1), which may use 64 MiB"; empty if no counter
// changed.
std::string out_of_memory(const OomCounts& before, const OomCounts& after);

// "64 MiB", "1.5 GiB"
std::string bytes_in_words(std::uint64_t bytes);

}  // namespace ddprun::agent
