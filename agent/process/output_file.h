// The regular file that a process writes as its stdout or stderr: its end, by /proc/<pid>/fd.
//
// A pipe, socket or terminal is never opened, as a further reader of it would be noticed. A file system may not answer:
// for a thread that may wait.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

namespace ddprun::agent {

using FileId = std::pair<dev_t, ino_t>;  // the same, whoever has opened it

struct FileEnd {
  FileId file = {};
  std::chrono::system_clock::time_point written = {};  // last
  std::string bytes = {};                              // at most kFileEndMax; empty: it has none, or may not be read
  bool is_private = false;                             // only its owner may read it
};
constexpr std::size_t kFileEndMax = 4096;

// Reads a file that several processes write once.
class OutputFiles {
 public:
  // `fd`: 1 or 2. Null: it is no regular file, or the process has ended.
  const FileEnd* end_of(pid_t pid, int fd);

 private:
  std::map<FileId, FileEnd> known_;
};

}  // namespace ddprun::agent
