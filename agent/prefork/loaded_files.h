// The files that a process consists of, to see when one of them changes.
#pragma once
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace ddprun::agent {

class LoadedFiles {
 public:
  LoadedFiles() = default;
  // `maps`: the text of /proc/<pid>/maps; `more`: further paths. What cannot be read now is left out.
  LoadedFiles(const std::string& maps, const std::vector<std::string>& more);
  // The first file that is gone, or has another inode, size or time now. Empty: none. A microsecond a file.
  std::string changed() const;
  std::size_t count() const { return files_.size(); }

 private:
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
    off_t size = 0;
    std::int64_t modified_ns = 0;
  };
  static bool look(File& file);

  std::vector<File> files_;
};

// The paths of mapped files in the text of /proc/<pid>/maps, each once; not those of devices and memory files.
std::vector<std::string> mapped_files(const std::string& maps);

}  // namespace ddprun::agent
