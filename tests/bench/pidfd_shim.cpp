// Preloaded under valgrind, which does not know pidfd_open(2) and pidfd_send_signal(2): answers them as for a process
// that never ends, so that ddprun sees a kernel that has pidfds. Those of workers are clone's, and real.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>

namespace {

using Call = long (*)(long, ...);

int silent_descriptor() {
  int ends[2];
  return pipe2(ends, O_CLOEXEC) == 0 ? ends[0] : -1;  // the other end stays open
}

}  // namespace

extern "C" long syscall(long number, ...) noexcept {
  if (number == SYS_pidfd_open) return silent_descriptor();
  if (number == SYS_pidfd_send_signal) return 0;
  static const auto real = reinterpret_cast<Call>(dlsym(RTLD_NEXT, "syscall"));
  long words[6];
  va_list rest;
  va_start(rest, number);
  for (long& word : words) word = va_arg(rest, long);
  va_end(rest);
  return real(number, words[0], words[1], words[2], words[3], words[4], words[5]);
}
