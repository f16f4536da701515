#include "agent/process/wrappers.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>

#include "agent/process/children.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/fd.h"

namespace ddprun::agent {
namespace {

bool starts_another(pid_t pid) {
  static const std::set<std::string> wrappers{"ash",     "bash",    "busybox",  "dash",   "env",    "fish",    "gdb",
                                              "ksh",     "ltrace",  "nice",     "nohup",  "nsys",   "numactl", "perf",
                                              "setarch", "setsid",  "sh",       "strace", "stdbuf", "taskset", "tcsh",
                                              "time",    "timeout", "valgrind", "zsh"};
  std::error_code unreadable;
  const auto file = std::filesystem::read_symlink(table_entry(pid) / "exe", unreadable);
  return !unreadable && wrappers.contains(file.filename().string());
}

// As its parent has not reaped it, the pid may be another's by now: that one has another parent.
bool ask(pid_t pid, pid_t parent, int signal) {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const auto now = task_stat(pid);
  if (!pidfd || !now || now->parent != parent) return false;
  if (syscall(SYS_pidfd_send_signal, pidfd.get(), signal, nullptr, 0) != 0) return false;
  syscall(SYS_pidfd_send_signal, pidfd.get(), SIGCONT, nullptr, 0);
  return true;
}

}  // namespace

std::vector<BelowWrapper> below_wrapper(pid_t pid) {
  std::vector<BelowWrapper> out;
  if (!starts_another(pid)) return out;
  for (const pid_t child : children_of(pid)) {
    out.push_back({child, pid});
    for (const BelowWrapper& below : below_wrapper(child)) out.push_back(below);
  }
  return out;
}

std::set<pid_t> signal_below(const std::vector<BelowWrapper>& all, int signal) {
  std::set<pid_t> asked;
  for (const BelowWrapper& one : all)
    if (ask(one.pid, one.parent, signal)) asked.insert(one.pid);
  return asked;
}

}  // namespace ddprun::agent
