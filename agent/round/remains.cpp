#include "agent/round/remains.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/process/exit_status.h"
#include "agent/process/file_content.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

bool has_all(std::string environment, const std::vector<std::string>& entries) {
  environment.insert(environment.begin(), '\0');
  environment.push_back('\0');
  return std::all_of(entries.begin(), entries.end(), [&](const std::string& entry) {
    return environment.find('\0' + entry + '\0') != environment.npos;
  });
}

bool bears(pid_t pid, const WorkerMark& mark) {
  const auto process = task_stat(pid);
  if (!process || process->is_dead()) return false;
  return (mark.session != 0 && process->session == mark.session) ||
         has_all(file_content(table_entry(pid) / "environ"), mark.entries);
}

}  // namespace

std::vector<pid_t> Remains::take(const std::vector<pid_t>& children, const WorkerMark& mark, pid_t owner) {
  if (owner != 0) owner_ = owner;
  std::vector<pid_t> fresh;
  for (const pid_t child : children)
    if (!holds(child) && bears(child, mark)) {
      asked_[child] = 0;
      fresh.push_back(child);
    }
  return fresh;
}

std::vector<pid_t> Remains::reap() {
  std::vector<pid_t> gone;
  for (const auto& [pid, asked] : asked_) {
    siginfo_t end{};
    const bool waited = waitid(P_PID, static_cast<id_t>(pid), &end, WEXITED | WNOHANG) == 0;
    if (waited && end.si_pid == 0) continue;
    if (waited && pid == owner_) outcome_ = exit_status_of(end.si_code, end.si_status);
    gone.push_back(pid);
  }
  for (const pid_t pid : gone) asked_.erase(pid);
  return gone;
}

void Remains::ask(const EndRequest& request) {
  for (auto& [pid, asked] : asked_) {
    if (std::exchange(asked, request.signal) == request.signal) continue;
    if (request.inside.contains(pid) || (request.group != 0 && getpgid(pid) == request.group)) continue;
    kill(pid, request.signal);
    kill(pid, SIGCONT);
  }
}

void Remains::signal(int signal) const {
  for (const auto& [pid, asked] : asked_) kill(pid, signal);
}

std::vector<pid_t> Remains::pids() const {
  std::vector<pid_t> out;
  for (const auto& [pid, asked] : asked_) out.push_back(pid);
  return out;
}

}  // namespace ddprun::agent
