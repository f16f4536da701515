// A whole file as a string; empty where it cannot be read.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ddprun::agent {

// By way of operator<<, which keeps a failing read to itself: a file of /proc whose process has just ended fails in the
// middle, and a stream-buffer iterator would throw.
inline std::string file_content(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace ddprun::agent
