// Preloaded into a program, it makes the disk too slow for a snapshot: once the file DDPRUN_TEST_DISK_IS_STUCK exists,
// fsync() of a file that a snapshot is being written to does not return.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

bool writes_snapshot(int fd) {
  char name[4096] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return readlink(link.c_str(), name, sizeof name - 1) > 0 && std::strstr(name, ".writing.");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int fsync(int fd) {
  const char* stuck = std::getenv("DDPRUN_TEST_DISK_IS_STUCK");
  while (stuck && access(stuck, F_OK) == 0 && writes_snapshot(fd)) sleep(1);
  return static_cast<int>(syscall(SYS_fsync, fd));
}
