// What is mapped where in a process, from /proc/<pid>/maps.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::agent {

struct Mapping {
  std::uint64_t begin = 0, end = 0;
  std::string path = {};  // "[stack]" and the like, too; empty: anonymous
};

// In order of addresses. Lines of another form are left out.
std::vector<Mapping> parse_memory_map(const std::string& text);
// Empty if it is not readable.
std::vector<Mapping> memory_map(pid_t pid);

// The mapping that has this address, or, as a stack grows downwards, the next one above it; nullptr: none.
const Mapping* mapping_from(const std::vector<Mapping>& map, std::uint64_t address);

}  // namespace ddprun::agent
