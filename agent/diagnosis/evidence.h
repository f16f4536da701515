// Collects what this machine knows about a worker's death: counters, files, kernel settings. Other files interpret it
// (oom_count, core_file, exec_failure, error_file).
//
// Nothing here throws: unreadable means unknown.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "agent/diagnosis/core_file.h"
#include "agent/diagnosis/error_file.h"
#include "agent/diagnosis/exec_failure.h"
#include "agent/diagnosis/oom_count.h"
#include "agent/diagnosis/python_modules.h"

namespace ddprun::agent {

// `root`: another prefix of /proc and /sys, for tests.
OomCounts read_oom_counts(const std::filesystem::path& root = "/");
// The lowest that our memory groups set; empty: none.
std::optional<std::uint64_t> read_memory_limit(const std::filesystem::path& root = "/");

// The file at the path, and its first bytes.
ProgramFile look_at_program(const std::string& path);
// What this machine's Pythons have: their folders and small files.
PythonFiles python_files();
// e_machine of this very program.
std::uint16_t own_machine();

// For a worker of ours with this pid that was killed by this signal.
CoreFacts core_facts(pid_t pid, int signal, const std::string& host);
struct FoundCore {
  std::string path = {};  // empty: none
  std::uint64_t bytes = 0;
};
// The newest file that matches `place.path` and is not older than `since`.
FoundCore find_core(const CorePlace& place, WallTime since);

}  // namespace ddprun::agent
