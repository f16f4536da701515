#include "agent/diagnosis/evidence.h"

#include <elf.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "agent/process/files/regular_file.h"
#include "agent/process/groups/own_groups.h"
#include "agent/process/process.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSettingMax = 1 << 20, kPythonFileMax = 1 << 16;

// A file of /proc or /sys, by plain reads: this runs at the start of every round.
std::string setting(const std::string& path) { return beginning_of_file(path, kSettingMax); }

// `root` in front of absolute paths: "" for the machine's own.
std::string prefix(const fs::path& root) { return root == "/" ? "" : root.string(); }

std::optional<std::uint64_t> limit_of(const ControlGroup& group, const std::string& root) {
  return memory_limit(setting(root + group.folder + (group.version1 ? "/memory.limit_in_bytes" : "/memory.max")));
}

MemoryGroup read_group(const ControlGroup& group, const std::string& root) {
  const auto number_in = [&](const char* name) {
    return std::strtoull(setting(root + group.folder + name).c_str(), nullptr, 10);
  };
  const auto counter_in = [&](const char* name, const char* key) {
    return counter(setting(root + group.folder + name), key).value_or(0);
  };
  MemoryGroup out{.name = group.name, .limit_bytes = limit_of(group, root)};
  if (group.version1) {
    out.kills = counter_in("/memory.oom_control", "oom_kill");
    out.limit_hits = number_in("/memory.failcnt") + number_in("/memory.memsw.failcnt");
  } else {
    out.kills = counter_in("/memory.events", "oom_kill");
    out.limit_hits = counter_in("/memory.events.local", "oom");
  }
  return out;
}

WallTime changed_at(const struct stat& status) {
  return WallTime(std::chrono::duration_cast<WallTime::duration>(std::chrono::seconds(status.st_mtim.tv_sec) +
                                                                 std::chrono::nanoseconds(status.st_mtim.tv_nsec)));
}

std::string link_target(const std::string& path) {
  std::error_code ignored;
  return fs::read_symlink(path, ignored).string();
}

}  // namespace

OomCounts read_oom_counts(const fs::path& root) {
  OomCounts out;
  const std::string at = prefix(root);
  for (const ControlGroup& group : own_groups(at).memory) out.groups.push_back(read_group(group, at));
  out.machine = counter(setting(at + "/proc/vmstat"), "oom_kill");
  return out;
}

std::optional<std::uint64_t> read_memory_limit(const fs::path& root) {
  std::optional<std::uint64_t> lowest;
  const std::string at = prefix(root);
  for (const ControlGroup& group : own_groups(at).memory)
    if (const auto limit = limit_of(group, at)) lowest = std::min(lowest.value_or(*limit), *limit);
  return lowest;
}

ProgramFile look_at_program(const std::string& path) {
  ProgramFile out;
  out.path = path;
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) out.dangling_to = link_target(path);
    return out;
  }
  out.exists = true;
  out.folder = S_ISDIR(status.st_mode);
  struct statvfs file_system {};
  out.on_noexec = statvfs(path.c_str(), &file_system) == 0 && (file_system.f_flag & ST_NOEXEC);
  out.runnable = (status.st_mode & 0111) && (out.on_noexec || access(path.c_str(), X_OK) == 0);
  if (S_ISREG(status.st_mode)) out.head = beginning_of_file(path, ProgramFile::kHeadBytes);
  return out;
}

PythonFiles python_files() {
  const char* const home = std::getenv("HOME");
  PythonFiles out;
  out.without_links = [](const std::string& path) {
    std::error_code none;
    return fs::canonical(path, none).string();
  };
  out.names = [](const std::string& folder) {
    std::error_code none;
    std::vector<std::string> names;
    for (fs::directory_iterator entry(folder, none), end; !none && entry != end; entry.increment(none))
      names.push_back(entry->path().filename().string());
    return names;
  };
  out.content = [](const std::string& path) { return beginning_of_file(path, kPythonFileMax); };
  out.home = home ? home : "";
  return out;
}

std::uint16_t own_machine() {
  const std::string head = beginning_of_file("/proc/self/exe", sizeof(Elf64_Ehdr));
  std::uint16_t machine = EM_NONE;
  if (head.size() >= sizeof(Elf64_Ehdr)) std::memcpy(&machine, head.data() + offsetof(Elf64_Ehdr, e_machine), 2);
  return machine;
}

CoreFacts core_facts(pid_t pid, int signal, const std::string& host) {
  std::error_code ignored;
  CoreFacts out;
  out.pattern = setting("/proc/sys/kernel/core_pattern");
  out.uses_pid = setting("/proc/sys/kernel/core_uses_pid").starts_with('1');
  out.folder = fs::current_path(ignored).string();
  out.host = host;
  out.pid = pid;
  out.signal = signal;
  out.user = getuid();
  out.group = getgid();
  return out;
}

FoundCore find_core(const CorePlace& place, WallTime since) {
  FoundCore found;
  WallTime newest = since;
  glob_t matches{};
  if (!place.path.empty() && glob(place.path.c_str(), GLOB_NOSORT, nullptr, &matches) == 0)
    for (std::size_t i = 0; i < matches.gl_pathc; ++i) {
      struct stat status {};
      if (stat(matches.gl_pathv[i], &status) != 0 || !S_ISREG(status.st_mode) || changed_at(status) < newest) continue;
      newest = changed_at(status);
      found = {matches.gl_pathv[i], static_cast<std::uint64_t>(status.st_size)};
    }
  globfree(&matches);
  return found;
}

}  // namespace ddprun::agent
