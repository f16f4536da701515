// Preloaded into ddprun, it does what qemu's user mode does: clone(2) has no pidfds, and a vfork is a fork whose child
// may come late; no process is a child subreaper.
#include <dlfcn.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#define DDPRUN_SHOWN extern "C" __attribute__((visibility("default")))

namespace {

constexpr int kPidfd = 0x1000;  // CLONE_PIDFD
constexpr useconds_t kLate = 50'000;

using Clone = int (*)(int (*)(void*), void*, int, void*, ...);

struct Late {
  int (*function)(void*);
  void* argument;
};

int begin_late(void* at) {
  const Late late = *static_cast<Late*>(at);
  usleep(kLate);
  return late.function(late.argument);
}

}  // namespace

DDPRUN_SHOWN int __clone(int (*function)(void*), void* stack, int flags, void* argument, ...) {  // NOLINT: glibc's name
  if (flags & kPidfd) {
    errno = EINVAL;
    return -1;
  }
  static const auto real = reinterpret_cast<Clone>(dlsym(RTLD_NEXT, "__clone"));
  Late late{function, argument};
  return real(begin_late, stack, flags & ~(CLONE_VM | CLONE_VFORK), &late);
}

DDPRUN_SHOWN int prctl(int option, ...) noexcept {
  if (option == PR_SET_CHILD_SUBREAPER || option == PR_GET_CHILD_SUBREAPER) {
    errno = EINVAL;
    return -1;
  }
  unsigned long words[4];
  va_list rest;
  va_start(rest, option);
  for (unsigned long& word : words) word = va_arg(rest, unsigned long);
  va_end(rest);
  return static_cast<int>(syscall(SYS_prctl, option, words[0], words[1], words[2], words[3]));
}
