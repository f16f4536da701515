// A whole file as a string; empty if it cannot be read.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "rendezvous/base/fd.h"

namespace ddprun::agent {

// A file of /proc whose process has just ended fails in the middle: what came before is returned.
inline std::string file_content(const std::string& path) {
  std::string out;
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 4'096> piece;
  while (file) {
    const ssize_t size = ::read(file.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    out.append(piece.data(), static_cast<std::size_t>(size));
  }
  return out;
}

}  // namespace ddprun::agent
