#include "agent/process/descendants.h"

#include <csignal>
#include <map>
#include <set>
#include <vector>

#include "agent/process/other_process.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

constexpr int kScansMax = 50;

struct Child {
  pid_t pid;
  unsigned long long start_time;
};

std::map<pid_t, std::vector<Child>> children_by_parent() {
  std::map<pid_t, std::vector<Child>> out;
  for (const pid_t pid : all_processes())
    if (const auto stat = task_stat(pid)) out[stat->parent].push_back({pid, stat->start_time});
  return out;
}

std::vector<Child> descendants(pid_t ancestor, const std::set<pid_t>& spared) {
  const auto children = children_by_parent();
  std::vector<Child> out;
  std::vector<pid_t> to_descend{ancestor};
  while (!to_descend.empty()) {
    const auto found = children.find(to_descend.back());
    to_descend.pop_back();
    if (found == children.end()) continue;
    for (const Child& child : found->second) {
      if (spared.contains(child.pid)) continue;
      out.push_back(child);
      to_descend.push_back(child.pid);
    }
  }
  return out;
}

// The pid may be another process's by now: its start shows it. Its parent may have ended: it is still the same.
bool kill_as_it_was(const Child& child) {
  const OtherProcess process(child.pid);
  const auto now = task_stat(child.pid);
  return now && now->start_time == child.start_time && process.signal(SIGKILL);
}

}  // namespace

void kill_descendants(pid_t ancestor, const std::set<pid_t>& spared) {
  std::set<pid_t> killed;
  for (int scan = 0; scan < kScansMax; ++scan) {
    const std::size_t before = killed.size();
    for (const Child& child : descendants(ancestor, spared))
      if (!killed.contains(child.pid) && kill_as_it_was(child)) killed.insert(child.pid);
    if (killed.size() == before) return;
  }
}

}  // namespace ddprun::agent
