#include "rendezvous/base/child_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "rendezvous/base/thread.h"

// glibc's internal name: the sanitizers treat clone() as a fork, which a child in our memory is not.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);  // NOLINT(bugprone-reserved-identifier): glibc's

namespace ddprun {
namespace {

// Headers of a system with such a kernel do not know them.
constexpr long kPidfdSendSignal = 424, kPidfdOpen = 434;  // the same on all architectures
constexpr int kClonePidfd = 0x1000;
constexpr auto kByPidfd = static_cast<idtype_t>(3);
constexpr int kVfork = CLONE_VM | CLONE_VFORK | SIGCHLD;

constexpr std::chrono::milliseconds kStopPause{1};

// An older kernel does not know the call, or its arguments; a container's filter may refuse it.
bool is_missing(int error) { return error == ENOSYS || error == EINVAL || error == EPERM; }

bool find_pidfds() {
  const Fd own = open_pidfd(getpid());
  if (!own) return !is_missing(errno);
  if (!signal_by_pidfd(own.get(), 0) && is_missing(errno)) return false;
  siginfo_t info{};
  return waitid(kByPidfd, static_cast<id_t>(own.get()), &info, WEXITED | WNOHANG) == 0 || !is_missing(errno);
}

// It is not reaped by that.
void await_end(pid_t pid) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) != 0) {
      if (errno == EINTR) continue;
      return;  // somebody has reaped it
    }
    if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) return;
    std::this_thread::sleep_for(kStopPause);  // a thread of ours has stopped it by ptrace, and every wait tells that
  }
}

}  // namespace

Fd open_pidfd(pid_t pid) { return Fd(static_cast<int>(syscall(kPidfdOpen, pid, 0))); }

bool signal_by_pidfd(int pidfd, int signal) { return syscall(kPidfdSendSignal, pidfd, signal, nullptr, 0) == 0; }

bool has_pidfds() {
  static const bool kHas = find_pidfds();
  return kHas;
}

pid_t clone_child(int (*function)(void*), void* stack_end, void* argument, Fd& fd) {
  if (!has_pidfds()) return __clone(function, stack_end, kVfork, argument);
  int pidfd = -1;
  const pid_t pid = __clone(function, stack_end, kVfork | kClonePidfd, argument, &pidfd);
  if (pid >= 0) fd = Fd(pidfd);
  if (pid >= 0 || errno != EINVAL) return pid;
  return __clone(function, stack_end, kVfork, argument);  // qemu's user mode does not know the flag
}

Fd child_descriptor(pid_t pid) { return has_pidfds() ? open_pidfd(pid) : descriptor_by_thread(pid); }

int wait_child(const ChildProcess& child, siginfo_t& info, int options) {
  if (has_pidfds()) return waitid(kByPidfd, static_cast<id_t>(child.fd), &info, options);
  return waitid(P_PID, static_cast<id_t>(child.pid), &info, options);
}

bool signal_child(const ChildProcess& child, int signal) {
  if (has_pidfds() && child.fd >= 0) return signal_by_pidfd(child.fd, signal);
  siginfo_t info{};
  const bool is_ours = waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
  return is_ours && kill(child.pid, signal) == 0;
}

// A pipe, and no eventfd, which both would have open: epoll goes on to report what one of them has closed. A byte, as a
// process that is forked meanwhile has the thread's end, too.
Fd descriptor_by_thread(pid_t pid) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return {};
  Fd ours(ends[0]);
  const auto its = std::make_shared<Fd>(ends[1]);
  const std::string refused = start_detached([pid, its] {
    await_end(pid);
    [[maybe_unused]] const auto written = write(its->get(), "", 1);  // fails if nobody waits any more
  });
  if (refused.empty()) return ours;
  errno = EAGAIN;
  return {};
}

}  // namespace ddprun
