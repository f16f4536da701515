#include "agent/process/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include "agent/process/children.h"
#include "agent/process/exit_status.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
constexpr int kExtraOomScore = 300;
constexpr std::chrono::microseconds kExecPause{200};

constexpr int kStandardSignals = 31;  // real-time ones are never ignored, and exec() resets all handlers
constexpr int kPreferNodes = 5;       // MPOL_PREFERRED_MANY, Linux 5.15: a full node kills no worker
constexpr int kPreferFirst = 1;       // MPOL_PREFERRED: of several nodes the first

using Bits = std::vector<unsigned long>;  // bit mask in the kernel's format for CPUs and nodes

// Written by the child, read by us after it has exec'd or ended.
struct Reply {
  int error = 0, binding_error = 0;
  bool oom_score_raised = false;
};

// Prepared before the child exists, as it shares our memory and must not allocate.
struct ChildPlan {
  const SpawnRequest* request;
  std::vector<char*> argv, environment;
  std::vector<PassedFd> descriptors;  // standard streams included, by number
  Bits cpus, memory_nodes;
  pid_t parent;
  Reply* reply;
  char oom_score[16];
  bool in_our_memory;  // set by the child; we see it unless it has got a copy
};

Bits bits(const std::vector<int>& numbers) {
  constexpr int kPerWord = CHAR_BIT * sizeof(unsigned long);
  Bits out(
      numbers.empty() ? 0 : static_cast<std::size_t>(*std::max_element(numbers.begin(), numbers.end()) / kPerWord + 1));
  for (const int n : numbers) out[static_cast<std::size_t>(n / kPerWord)] |= 1UL << n % kPerWord;
  return out;
}

std::vector<char*> pointers(const std::vector<std::string>& strings, const std::vector<std::string>* before = nullptr) {
  std::vector<char*> out;
  out.reserve((before ? before->size() : 0) + strings.size() + 1);
  if (before)
    for (const std::string& s : *before) out.push_back(const_cast<char*>(s.c_str()));
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

int read_own_oom_score() {
  char text[16] = {};
  const Fd file(open("/proc/self/oom_score_adj", O_RDONLY | O_CLOEXEC));
  if (!file || read(file.get(), text, sizeof text - 1) <= 0) return 0;
  return std::atoi(text);  // NOLINT(bugprone-unchecked*): the kernel's number
}

int own_oom_score() {  // constant while we run
  static const int score = read_own_oom_score();
  return score;
}

// False if the file is not writable for us, as for an agent whose memory is protected; or without /proc.
bool raise_oom_score(const char* file_name, const ChildPlan& plan) {
  const Fd file(open(file_name, O_WRONLY | O_CLOEXEC));
  if (!file) return false;
  [[maybe_unused]] const auto written = write(file.get(), plan.oom_score, std::strlen(plan.oom_score));
  return true;
}

// The argument of the kernel's rt_sigaction; glibc's struct has another order.
struct KernelSigaction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  std::uint64_t mask;
};

// The agent's handlers and ignored signals (SIGPIPE, SIGTTOU) are not for workers; SIGHUP stays as nohup set it.
// Bypasses glibc, whose own tables we share with the agent.
void default_signals() {
  const KernelSigaction dispose{};
  for (int signal = 1; signal <= kStandardSignals; ++signal) {
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

// Those that /proc names. Allocates nothing: a child shares our memory.
bool close_listed(int first, int last) {
  const Fd folder(open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return false;
  alignas(dirent64) std::array<char, 1'024> entries;
  for (;;) {
    const long size = syscall(SYS_getdents64, folder.get(), entries.data(), entries.size());
    if (size <= 0) return size == 0;
    for (long at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      int fd = -1;
      std::from_chars(entry->d_name, entry->d_name + std::strlen(entry->d_name), fd);
      if (fd >= first && fd <= last && fd != folder.get()) close(fd);
    }
  }
}

// The call is there from Linux 5.9 on, and an older container's filter refuses it.
bool close_range(int first, int last) {
  return first > last || syscall(SYS_close_range, first, last, 0) == 0 || close_listed(first, last);
}

bool close_all_but(const std::vector<PassedFd>& kept) {
  int next = 0;
  for (const PassedFd& one : kept) {
    if (!close_range(next, one.number - 1)) return false;
    next = one.number + 1;
  }
  return close_range(next, INT_MAX);
}

// A source descriptor whose number is also a target moves out of the way first. dup2 clears close-on-exec, except if
// the two are equal.
bool place_descriptors(std::vector<PassedFd>& all) {
  const auto is_given = [&](int fd) {
    return std::any_of(all.begin(), all.end(), [&](const PassedFd& one) { return one.number == fd; });
  };
  for (PassedFd& one : all) {
    if (one.fd == one.number) continue;
    while (is_given(one.fd))  // the number may be the highest possible one
      if ((one.fd = fcntl(one.fd, F_DUPFD, STDERR_FILENO + 1)) < 0) return false;
  }
  for (const PassedFd& one : all) {
    if (one.fd == one.number ? fcntl(one.fd, F_SETFD, 0) < 0 : dup2(one.fd, one.number) < 0) return false;
  }
  return close_all_but(all);
}

void limit_core_dumps(bool allowed) {
  rlimit limit{};
  if (getrlimit(RLIMIT_CORE, &limit) != 0) return;
  limit.rlim_cur = allowed ? limit.rlim_max : 0;  // the hard limit stays: the program may raise its soft limit
  setrlimit(RLIMIT_CORE, &limit);
}

// The memory node is a preference: if it is full, memory comes from near the CPU that first touches it.
int bind(const ChildPlan& plan) {
  constexpr std::size_t kWordBits = CHAR_BIT * sizeof(unsigned long);
  const auto prefer_memory = [&](int policy) {
    return syscall(SYS_set_mempolicy, policy, plan.memory_nodes.data(), plan.memory_nodes.size() * kWordBits + 1) == 0;
  };
  if (!plan.memory_nodes.empty() && !prefer_memory(kPreferNodes)) prefer_memory(kPreferFirst);
  if (plan.cpus.empty()) return 0;
  return syscall(SYS_sched_setaffinity, 0, plan.cpus.size() * sizeof(unsigned long), plan.cpus.data()) < 0 ? errno : 0;
}

int child_main(void* argument) {
  auto& plan = *static_cast<ChildPlan*>(argument);
  const SpawnRequest& request = *plan.request;
  plan.in_our_memory = true;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // the agent died before prctl took effect
  default_signals();
  plan.reply->oom_score_raised = raise_oom_score("/proc/self/oom_score_adj", plan);
  limit_core_dumps(request.core_dumps);
  plan.reply->binding_error = bind(plan);
  if (join_session(request) && place_descriptors(plan.descriptors)) {
    const std::uint64_t none = 0;  // the agent's blocked signals are not for workers
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
    execve(request.program.c_str(), plan.argv.data(), plan.environment.data());
  }
  plan.reply->error = errno;
  _exit(127);
}

void* shared_memory(std::size_t bytes) {
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  return at;
}

void* child_stack() {
  static void* const stack = shared_memory(kStackBytes);
  return static_cast<char*>(stack) + kStackBytes;  // one is enough: the parent waits until the child has exec'd
}

// clone() cannot set a cgroup, and clone3() with shared memory would need assembly for each architecture. So the child
// gets a copy of our page tables, which are small.
int clone_into(int cgroup_fd, ChildPlan& plan, Fd& fd) {
  clone_args args{};
  int pidfd = -1;
  args.flags = CLONE_VFORK | CLONE_INTO_CGROUP | (has_pidfds() ? CLONE_PIDFD : 0);
  args.pidfd = reinterpret_cast<std::uintptr_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<std::uint64_t>(cgroup_fd);
  const auto pid = static_cast<int>(syscall(SYS_clone3, &args, sizeof args));
  if (pid == 0) child_main(&plan);
  if (pid > 0) fd = Fd(pidfd);  // else the kernel may have written a number that it has taken back
  return pid;
}

// qemu's user mode makes a fork of a vfork and does not wait. The next child would have the stack and the reply of this
// one, and an error of its exec would come too late. Not inlined, as tests/bench/count_test.py knows it by its name.
[[gnu::noinline]] void await_exec(pid_t pid) {
  for (auto stat = task_stat(pid); stat && !stat->has_execed() && !stat->is_dead(); stat = task_stat(pid))
    std::this_thread::sleep_for(kExecPause);
}

int start_child(ChildPlan& plan, Fd& fd) {
  if (const int cgroup = plan.request->cgroup_fd; cgroup >= 0) {
    const int pid = clone_into(cgroup, plan, fd);
    if (pid > 0) return pid;  // else the group is gone or not usable: better outside than not at all
  }
  const int pid = clone_child(child_main, child_stack(), &plan, fd);
  if (pid > 0 && !plan.in_our_memory) await_exec(pid);
  return pid;
}

// It no longer uses our memory, but may not be dead yet.
Spawned not_started(pid_t pid, int error) {
  siginfo_t gone{};
  waitid(P_PID, static_cast<id_t>(pid), &gone, WEXITED);
  return {0, Fd(), error};
}

// Every wait also tells that a thread of ours has stopped the process by ptrace (agent/stacks), wait(2) or not.
bool tells_an_end(const siginfo_t& info) {
  return info.si_pid != 0 && (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
}

}  // namespace

Spawned spawn(const SpawnRequest& request) {
  static auto* const reply = static_cast<Reply*>(shared_memory(sizeof(Reply)));
  *reply = {};
  ChildPlan plan{&request,
                 pointers(request.argv),
                 pointers(request.environment, request.common_environment),
                 descriptors_of(request),
                 bits(request.cpus),
                 bits(request.memory_nodes),
                 getpid(),
                 reply,
                 {},
                 false};
  std::snprintf(plan.oom_score, sizeof plan.oom_score, "%d", std::min(own_oom_score() + kExtraOomScore, 1000));
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);  // no handler of ours may run in the child: it shares our memory
  Fd fd;
  const int pid = start_child(plan, fd);
  const int clone_error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return {0, Fd(), clone_error};
  if (reply->error != 0) return not_started(pid, reply->error);
  if (!fd) fd = child_descriptor(pid);
  if (!fd) {
    const int error = errno;
    kill(pid, SIGKILL);
    return not_started(pid, error);
  }
  if (!reply->oom_score_raised)  // after exec the file belongs to its user again
    raise_oom_score(("/proc/" + std::to_string(pid) + "/oom_score_adj").c_str(), plan);
  return {pid, std::move(fd), 0, reply->binding_error};
}

std::optional<rendezvous::ExitStatus> end_of(const ChildProcess& child) {
  siginfo_t info{};
  if (wait_child(child, info, WEXITED | WNOHANG | WNOWAIT) != 0 || !tells_an_end(info)) return {};
  return exit_status_of(info.si_code, info.si_status);
}

std::optional<rendezvous::ExitStatus> reap(const ChildProcess& child, pid_t group) {
  const auto status = end_of(child);
  if (!status) return {};
  if (group > 0) kill(-group, SIGKILL);
  siginfo_t info{};
  wait_child(child, info, WEXITED | WNOHANG);
  return status;
}

namespace {

// The kernel names the same one again.
void reap_behind(const std::vector<pid_t>& spared) {
  for (const pid_t child : children())
    if (std::find(spared.begin(), spared.end(), child) == spared.end()) waitpid(child, nullptr, WNOHANG);
}

}  // namespace

void reap_orphans(const std::vector<pid_t>& spared) {
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return;
    if (!tells_an_end(info)) {
      waitid(P_PID, static_cast<id_t>(info.si_pid), &info,
             WSTOPPED | WNOHANG);  // takes the news away: others are behind it
      continue;
    }
    if (std::find(spared.begin(), spared.end(), info.si_pid) != spared.end()) return reap_behind(spared);
    waitpid(info.si_pid, nullptr, WNOHANG);
  }
}

}  // namespace ddprun::agent
