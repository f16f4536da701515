#include "agent/diagnosis/evidence.h"

#include <elf.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "agent/process/control_groups.h"
#include "agent/process/process.h"
#include "agent/process/regular_file.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSettingMax = 1 << 20;

// A file of /proc or /sys, by plain reads: this runs at the start of every round.
std::string setting(const fs::path& path) { return beginning_of_file(path, kSettingMax); }

std::uint64_t number_in(const std::string& text) { return counter("number " + text, "number").value_or(0); }

MemoryGroup read_group(const ControlGroup& group, const fs::path& root) {
  const fs::path folder = root / fs::path(group.folder).relative_path();
  const auto file = [&](const char* name) { return setting(folder / name); };
  if (group.version1)
    return {group.name, counter(file("memory.oom_control"), "oom_kill").value_or(0),
            number_in(file("memory.failcnt")) + number_in(file("memory.memsw.failcnt")),
            memory_limit(file("memory.limit_in_bytes"))};
  return {group.name, counter(file("memory.events"), "oom_kill").value_or(0),
          counter(file("memory.events.local"), "oom").value_or(0), memory_limit(file("memory.max"))};
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
  for (const ControlGroup& group :
       control_groups("memory", setting(root / "proc/self/cgroup"), setting(root / "proc/self/mountinfo")))
    out.groups.push_back(read_group(group, root));
  out.machine = counter(setting(root / "proc/vmstat"), "oom_kill");
  return out;
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
