// A log file that is only appended to, with a limit on its size.
//
// A full one becomes NAME.1, NAME.1 becomes NAME.2, and so on; the oldest is removed. Rotation cuts no line, unless it
// is longer than the limit. On a full disk only what is written meanwhile is lost: every write tries again, and a line
// in the file says how many bytes are missing.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "agent/process/process.h"

namespace ddprun::agent {

struct LogLimit {
  std::uint64_t size_max = 0;  // 0: none
  int keep = 0;                // how many full ones to keep
};

class LogFile {
 public:
  // The first write opens it.
  explicit LogFile(std::filesystem::path path, LogLimit limit = {}) : path_(std::move(path)), limit_(limit) {}
  // With a limit, pass whole lines. Returns 0, or the errno that kept bytes from being written, which may be that of a
  // failed open.
  int write(std::string_view bytes);
  bool limited() const { return limit_.size_max > 0; }
  const std::filesystem::path& path() const { return path_; }

 private:
  int open();
  int append(std::string_view bytes);
  int note_gap();
  int write_limited(std::string_view bytes);
  int rotate();

  std::filesystem::path path_;
  LogLimit limit_;
  Fd file_;
  std::uint64_t size_ = 0;
  std::uint64_t missing_ = 0;  // bytes lost since the last successful write
};

// For a process that writes the file itself. On failure, also for a link or a pipe, errno says why.
Fd open_to_append(const std::filesystem::path& path);
// The same, and what it says.
struct OpenedFile {
  Fd fd = {};
  int error = 0;             // of an empty `fd`
  std::uintmax_t bytes = 0;  // in it
};
OpenedFile open_own_file(const std::filesystem::path& path);
// For that errno, and for LogFile::write's result.
std::string why_unwritable(int error);

}  // namespace ddprun::agent
