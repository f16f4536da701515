#include "agent/prefork/loaded_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <sstream>

namespace ddprun::agent {

std::vector<std::string> mapped_files(const std::string& maps) {
  constexpr int kFieldsBefore = 5;  // proc_pid_maps(5): address, permissions, offset, device, inode
  std::set<std::string> out;
  std::istringstream lines(maps);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string field, path;
    for (int i = 0; i < kFieldsBefore; ++i) fields >> field;
    std::getline(fields >> std::ws, path);
    if (path.starts_with('/') && !path.starts_with("/dev/") && !path.starts_with("/memfd:") &&
        !path.starts_with("/SYSV"))
      out.insert(path);
  }
  return {out.begin(), out.end()};
}

LoadedFiles::LoadedFiles(const std::string& maps, const std::vector<std::string>& more) {
  std::vector<std::string> paths = mapped_files(maps);
  paths.insert(paths.end(), more.begin(), more.end());
  for (const std::string& path : paths)
    if (File file{.path = path}; look(file)) files_.push_back(file);
}

bool LoadedFiles::look(File& file) {
  struct stat facts {};
  if (stat(file.path.c_str(), &facts) != 0) return false;
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  file.device = facts.st_dev;
  file.inode = facts.st_ino;
  file.size = facts.st_size;
  file.modified_ns = facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec;
  return true;
}

std::string LoadedFiles::changed() const {
  const auto differs = [](const File& before) {
    File now{.path = before.path};
    return !look(now) || now.device != before.device || now.inode != before.inode || now.size != before.size ||
           now.modified_ns != before.modified_ns;
  };
  const auto found = std::find_if(files_.begin(), files_.end(), differs);
  return found == files_.end() ? "" : found->path;
}

}  // namespace ddprun::agent
