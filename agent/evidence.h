// What this machine knows about a worker's death: counters, files, the kernel's settings. It is read here and judged
// elsewhere (oom_count, core_file, exec_failure, error_file).
//
// Nothing here throws: what cannot be read is not known.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "agent/core_file.h"
#include "agent/error_file.h"
#include "agent/exec_failure.h"
#include "agent/oom_count.h"

namespace ddprun {

// `root`: where /proc and /sys are, for tests.
OomCounts read_oom_counts(const std::filesystem::path& root = "/");

// What lies at the path, and its first bytes.
ProgramFile look_at_program(const std::string& path);
// e_machine of this very program.
std::uint16_t own_machine();

// The pattern, for a worker of ours with this pid that was killed by this signal.
CoreFacts core_facts(pid_t pid, int signal, const std::string& host);
struct FoundCore {
  std::string path = {};  // empty: none
  std::uint64_t bytes = 0;
};
// The newest file that fits and is not older than `since`. Only `place.path` counts.
FoundCore find_core(const CorePlace& place, WallTime since);

// At most the first `bytes_max` of a plain file; whatever else a worker put there (a pipe, a folder) reads as empty.
enum class Links { followed, refused };
std::string beginning_of_file(const std::filesystem::path& path, std::size_t bytes_max, Links links = Links::followed);

// The newest 64 KiB, at most, of what the plain file holds behind its byte `begin`; empty where that is nothing. A link
// is not followed.
std::string newest_part(const std::filesystem::path& path, std::uintmax_t begin);
// In one step: a reader never sees half of it. A link, device or pipe at the path stays and is written to. False, with
// errno: not possible.
bool replace_file(const std::filesystem::path& path, const std::string& content);

}  // namespace ddprun
