// A whole file as a string; empty if it cannot be read.
#pragma once
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace ddprun::agent {

// Uses operator<<, which does not throw when a read fails: a file of /proc whose process has just ended fails in the
// middle, and a stream-buffer iterator would throw.
inline std::string file_content(const std::filesystem::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

}  // namespace ddprun::agent
