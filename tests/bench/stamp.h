// A worker's way to tell a bench when something happened: the time, in a file of its folder.
#pragma once
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace ddprun {

inline long long now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

// Writes FOLDER/PREFIXPID, whole or not at all. The time is CLOCK_MONOTONIC's, in ns.
inline bool stamp(const std::string& folder, const std::string& prefix = "") {
  const std::string name = folder + "/" + prefix + std::to_string(getpid());
  const std::string text = std::to_string(now_ns()) + "\n";
  const int file = open((name + ".new").c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const bool written = file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) close(file);
  return written && std::rename((name + ".new").c_str(), name.c_str()) == 0;
}

}  // namespace ddprun
