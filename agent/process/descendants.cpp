#include "agent/process/descendants.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <set>
#include <vector>

#include "agent/process/process_table.h"
#include "rendezvous/base/fd.h"

namespace ddprun::agent {
namespace {

constexpr int kScansMax = 50;

std::map<pid_t, std::vector<pid_t>> children_by_parent() {
  std::map<pid_t, std::vector<pid_t>> out;
  for (const pid_t pid : all_processes())
    if (const auto stat = task_stat(pid)) out[stat->parent].push_back(pid);
  return out;
}

std::vector<pid_t> descendants(pid_t ancestor, const std::set<pid_t>& spared) {
  const auto children = children_by_parent();
  std::vector<pid_t> out, to_descend{ancestor};
  while (!to_descend.empty()) {
    const auto found = children.find(to_descend.back());
    to_descend.pop_back();
    if (found == children.end()) continue;
    for (const pid_t child : found->second) {
      if (spared.contains(child)) continue;
      out.push_back(child);
      to_descend.push_back(child);
    }
  }
  return out;
}

// The pid may be another process's by now: its start shows it.
bool kill_as_it_was(pid_t pid) {
  const auto before = task_stat(pid);
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  const auto now = task_stat(pid);
  if (!pidfd || !before || !now || before->start_time != now->start_time || before->parent != now->parent) return false;
  return syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0) == 0;
}

}  // namespace

void kill_descendants(pid_t ancestor, const std::set<pid_t>& spared) {
  std::set<pid_t> killed;
  for (int scan = 0; scan < kScansMax; ++scan) {
    const std::size_t before = killed.size();
    for (const pid_t pid : descendants(ancestor, spared))
      if (!killed.contains(pid) && kill_as_it_was(pid)) killed.insert(pid);
    if (killed.size() == before) return;
  }
}

}  // namespace ddprun::agent
