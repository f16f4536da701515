#include "agent/evidence.h"

#include <elf.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <utility>

#include "agent/process.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kSettingMax = 1 << 20;
constexpr std::uintmax_t kNewestBytes = 64 * 1024;

// A file of /proc or /sys, by plain reads: this runs at the start of every round.
std::string setting(const fs::path& path) { return beginning_of_file(path, kSettingMax); }

std::uint64_t number_in(const std::string& text) { return counter("number " + text, "number").value_or(0); }

MemoryGroup read_group(const MemoryGroupFolder& group, const fs::path& root) {
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

struct PlainFile {
  Fd fd = {};  // empty: there is none
  std::uintmax_t bytes = 0;
};

PlainFile open_plain(const fs::path& path, Links links) {
  const int follow = links == Links::followed ? 0 : O_NOFOLLOW;
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | follow));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  return {std::move(file), static_cast<std::uintmax_t>(status.st_size)};
}

bool write_to(int descriptor, const std::string& content) {
  const Fd file(descriptor);
  if (!file) return false;
  const ssize_t written = ::write(file.get(), content.data(), content.size());
  if (written >= 0 && static_cast<std::size_t>(written) < content.size()) errno = ENOSPC;
  return written == static_cast<ssize_t>(content.size());
}

std::string link_target(const std::string& path) {
  std::error_code ignored;
  return fs::read_symlink(path, ignored).string();
}

}  // namespace

OomCounts read_oom_counts(const fs::path& root) {
  OomCounts out;
  for (const MemoryGroupFolder& group :
       memory_groups(setting(root / "proc/self/cgroup"), setting(root / "proc/self/mountinfo")))
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
  out.uses_pid = setting("/proc/sys/kernel/core_uses_pid").starts_with("1");
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

std::string beginning_of_file(const fs::path& path, std::size_t bytes_max, Links links) {
  const PlainFile file = open_plain(path, links);
  if (!file.fd) return {};
  std::string out;
  std::array<char, 16'384> piece;
  while (out.size() < bytes_max) {
    const ssize_t size = ::read(file.fd.get(), piece.data(), std::min(piece.size(), bytes_max - out.size()));
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    out.append(piece.data(), static_cast<std::size_t>(size));
  }
  return out;
}

std::string newest_part(const fs::path& path, std::uintmax_t begin) {
  const PlainFile file = open_plain(path, Links::refused);
  if (!file.fd || file.bytes <= begin) return {};
  const std::uintmax_t length = std::min(file.bytes - begin, kNewestBytes);
  std::string content(length, '\0');
  const ssize_t got = pread(file.fd.get(), content.data(), length, static_cast<off_t>(file.bytes - length));
  content.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return content;
}

bool replace_file(const fs::path& path, const std::string& content) {
  struct stat status {};
  if (lstat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode))
    return write_to(::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), content);
  const fs::path fresh = path.string() + ".ddprun-" + std::to_string(getpid());
  if (write_to(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644), content) &&
      std::rename(fresh.c_str(), path.c_str()) == 0)
    return true;
  const int why = errno;
  unlink(fresh.c_str());
  errno = why;
  return false;
}

}  // namespace ddprun
