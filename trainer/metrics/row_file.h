// A file that grows row by row: of each row all or nothing is there, also on a disk that is full for a while.
//
// What the disk refuses is a std::system_error. For one thread.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"

namespace ddprun::train {

class RowFile {
 public:
  // Opens a regular file for reading and writing; makes it where it is not there. Throws Error for anything else than a
  // regular file.
  explicit RowFile(const std::string& path);

  // Up to `size` bytes from an offset; fewer at the end.
  std::string read(std::uint64_t offset, std::size_t size) const;
  std::uint64_t size() const { return size_; }
  void cut(std::uint64_t size);
  // At the end. What a write that failed half-way has left is removed first.
  void append(std::string_view row);

 private:
  const Fd fd_;
  std::uint64_t size_ = 0;  // of the rows that are whole
  bool torn_ = false;       // there is more on disk
};

}  // namespace ddprun::train
