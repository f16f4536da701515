// How test workers hang: functions that stacks name.
#pragma once
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>

namespace ddprun::test {

inline void tell_fault() {
  std::printf("fault\n");
  std::fflush(stdout);
}

__attribute__((noinline)) inline void spin_forever() {
  for (volatile bool forever = true; forever;) continue;
}

__attribute__((noinline)) inline void lock_twice() {
  static std::mutex mutex;
  const std::lock_guard first(mutex), second(mutex);
}

__attribute__((noinline)) inline void read_stuck_file() {
  char byte;
  const int fd = open("stuck/file", O_RDONLY | O_CLOEXEC);
  if (fd >= 0 && read(fd, &byte, 1) > 0) std::puts("read");
}

}  // namespace ddprun::test
