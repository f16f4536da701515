#include "agent/process.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>

#include "agent/exit_status.h"

// glibc's own name: the sanitizers take clone() for a fork, which a child in our memory is not.
extern "C" int __clone(int (*)(void*), void*, int, void*, ...);

namespace ddprun {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;
constexpr int kExtraOomScore = 300;

// What the child needs, made before it exists: it shares our memory and must not allocate.
struct ChildPlan {
  const SpawnRequest* request;
  std::vector<char*> argv, environment;
  std::vector<PassedFd> descriptors;  // standard streams included, by number
  pid_t parent;
  sigset_t mask;
  char oom_score[16];
  int error = 0;  // written by the child, read by us after it has exec'd or gone
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

int own_oom_score() {
  char text[16] = {};
  const Fd file(open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC));
  return file && read(file.get(), text, sizeof text - 1) > 0 ? std::atoi(text) : 0;
}

void raise_oom_score(const ChildPlan& plan) {
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;  // no /proc here: the kernel's own choice will do
  [[maybe_unused]] const auto written = write(file, plan.oom_score, std::strlen(plan.oom_score));
  close(file);
}

// What the kernel's rt_sigaction takes; glibc's struct has another order.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// Handlers belong to the agent's code, and ignored signals (SIGPIPE, SIGTTOU) to its habits; SIGHUP stays as nohup set
// it. Past glibc, whose own tables we share with the agent.
void default_signals() {
  const KernelSigaction dispose{};
  for (int signal = 1; signal < NSIG; ++signal) {
    KernelSigaction old{};
    if (syscall(SYS_rt_sigaction, signal, nullptr, &old, sizeof old.mask) != 0) continue;
    if (signal == SIGHUP && old.handler == SIG_IGN) continue;
    if (old.handler != SIG_DFL) syscall(SYS_rt_sigaction, signal, &dispose, nullptr, sizeof dispose.mask);
  }
}

bool join_session(const SpawnRequest& request) {
  if (request.foreground_group) return setpgid(0, *request.foreground_group) == 0;
  return setsid() >= 0;
}

std::vector<PassedFd> descriptors_of(const SpawnRequest& request) {
  std::vector<PassedFd> all{{request.stdin_fd, 0}, {request.stdout_fd, 1}, {request.stderr_fd, 2}};
  all.insert(all.end(), request.passed.begin(), request.passed.end());
  std::sort(all.begin(), all.end(), [](const PassedFd& a, const PassedFd& b) { return a.number < b.number; });
  return all;
}

bool close_range(int first, int last) { return first > last || syscall(SYS_close_range, first, last, 0) == 0; }

bool close_all_but(const std::vector<PassedFd>& kept) {
  int next = 0;
  for (const PassedFd& one : kept) {
    if (!close_range(next, one.number - 1)) return false;
    next = one.number + 1;
  }
  return close_range(next, INT_MAX);
}

// A source that is also a number to be given moves out of the way first. dup2 clears close-on-exec, but not where the
// two are equal already.
bool place_descriptors(std::vector<PassedFd>& all) {
  const auto is_given = [&](int fd) {
    return std::any_of(all.begin(), all.end(), [&](const PassedFd& one) { return one.number == fd; });
  };
  for (PassedFd& one : all)
    if (one.fd != one.number && is_given(one.fd) && (one.fd = fcntl(one.fd, F_DUPFD, all.back().number + 1)) < 0)
      return false;
  for (const PassedFd& one : all) {
    if (one.fd == one.number ? fcntl(one.fd, F_SETFD, 0) < 0 : dup2(one.fd, one.number) < 0) return false;
  }
  return close_all_but(all);
}

void no_core_dumps() {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = 0;  // a dump delays every sign of a death by seconds; the hard limit stays, the program may raise it
  setrlimit(RLIMIT_CORE, &limit);
}

int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  const SpawnRequest& request = *plan.request;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the agent died before prctl took hold
  default_signals();
  raise_oom_score(plan);
  no_core_dumps();
  if (join_session(request) && place_descriptors(plan.descriptors)) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &plan.mask, nullptr, sizeof KernelSigaction::mask);
    execve(request.program.c_str(), plan.argv.data(), plan.environment.data());
  }
  plan.error = errno;
  _exit(127);
}

void* child_stack() {
  static void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return static_cast<char*>(stack) + kStackBytes;  // one is enough: the parent waits until the child has exec'd
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    reset();
    fd_ = other.release();
  }
  return *this;
}

int Fd::release() { return std::exchange(fd_, -1); }

void Fd::reset() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

Spawned spawn(const SpawnRequest& request) {
  ChildPlan plan{&request, pointers(request.argv), pointers(request.environment), descriptors_of(request), getpid(), {},
                 {}};
  std::snprintf(plan.oom_score, sizeof plan.oom_score, "%d", std::min(own_oom_score() + kExtraOomScore, 1000));
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &plan.mask);  // no handler of ours may run in the child: it shares our memory
  int pidfd = -1;
  const int pid = __clone(child_main, child_stack(), CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &pidfd);
  const int clone_error = errno;
  sigprocmask(SIG_SETMASK, &plan.mask, nullptr);
  if (pid < 0) return {0, Fd(), clone_error};
  Fd owned(pidfd);
  if (plan.error == 0) return {pid, std::move(owned), 0};
  siginfo_t gone{};
  waitid(P_PIDFD, static_cast<id_t>(pidfd), &gone, WEXITED);  // it has let go of our memory, but may not be dead yet
  return {0, Fd(), plan.error};
}

std::optional<ExitStatus> reap(int pidfd, pid_t group) {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pidfd);
  if (waitid(P_PIDFD, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
  if (group > 0) kill(-group, SIGKILL);
  waitid(P_PIDFD, id, &info, WEXITED | WNOHANG);
  return exit_status_of(info.si_code, info.si_status);
}

void reap_orphans(const std::vector<pid_t>& workers) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (std::find(workers.begin(), workers.end(), info.si_pid) != workers.end()) return;
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace ddprun
