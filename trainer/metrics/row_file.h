// A file that grows row by row: each row is written whole or not at all, even if the disk is full for a while.
//
// Throws std::system_error on a disk error. Not thread-safe.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "rendezvous/base/fd.h"

namespace ddprun::train {

class RowFile {
 public:
  // Opens a regular file for reading and writing; creates it if missing. Throws Error for anything but a regular file.
  explicit RowFile(const std::string& path);

  // Up to `size` bytes from an offset; fewer at the end.
  std::string read(std::uint64_t offset, std::size_t size) const;
  std::uint64_t size() const { return size_; }
  void cut(std::uint64_t size);
  // Appends at the end. First removes what a failed write left.
  void append(std::string_view row);

 private:
  const Fd fd_;
  std::uint64_t size_ = 0;  // of the complete rows
  bool torn_ = false;       // the disk has more: part of a row
};

}  // namespace ddprun::train
