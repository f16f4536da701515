// A log file that is only ever appended to, with a limit to its size.
//
// A full one becomes NAME.1, NAME.1 becomes NAME.2, and so on; the oldest goes. No line is cut by that, unless it is
// longer than the limit. A full disk costs what is written meanwhile, not the file: it is tried again with the next
// bytes, and a line in it says how many are missing.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "agent/process/process.h"

namespace ddprun::agent {

struct LogLimit {
  std::uint64_t size_max = 0;  // 0: none
  int keep = 0;                // of the full ones
};

class LogFile {
 public:
  explicit LogFile(std::filesystem::path path, LogLimit limit = {});
  // Where it holds a limit, give it whole lines. 0, or the errno that kept bytes from being written; an open that
  // failed counts as such.
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
  std::uint64_t missing_ = 0;  // bytes since the last one that was written
};

// For a process that writes the file itself; errno says why there is none: also where a link or a pipe is there.
Fd open_to_append(const std::filesystem::path& path);
// Of that errno, and of LogFile::write's answers.
std::string why_unwritable(int error);

}  // namespace ddprun::agent
