#include "agent/round/remains.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <string_view>
#include <utility>

#include "agent/process/children.h"
#include "agent/process/exit_status.h"
#include "agent/process/files/file_content.h"
#include "agent/process/job_cookie.h"
#include "agent/process/process_table.h"
#include "agent/process/wrappers.h"

namespace ddprun::agent {
namespace {

std::optional<std::string_view> value_in(std::string_view environment, std::string_view name) {
  while (!environment.empty()) {
    const std::string_view entry = environment.substr(0, environment.find('\0'));
    if (entry.starts_with(name) && entry.substr(name.size()).starts_with('=')) return entry.substr(name.size() + 1);
    environment.remove_prefix(std::min(entry.size() + 1, environment.size()));
  }
  return {};
}

// What it would pass the signal on to has got it.
bool passes_on_to_one_of(pid_t pid, const std::set<pid_t>& asked) {
  if (!passes_signals_on(pid)) return false;
  const std::vector<pid_t> below = children_of(pid);
  return std::any_of(below.begin(), below.end(), [&](pid_t child) { return asked.contains(child); });
}

}  // namespace

std::optional<int> rank_by_environment(pid_t pid, const std::string& cookie) {
  const std::string environment = file_content(table_entry(pid) / "environ");
  const auto rank = value_in(environment, "RANK");
  int number = 0;
  if (!rank || value_in(environment, kCookieVariable) != cookie) return {};
  if (std::from_chars(rank->data(), rank->data() + rank->size(), number).ec != std::errc()) return {};
  return number;
}

bool Remains::reap(const std::function<void(pid_t)>& before) {
  std::vector<pid_t> gone;
  for (const auto& [pid, asked] : asked_) {
    siginfo_t end{};
    const auto id = static_cast<id_t>(pid);
    const bool is_ours = waitid(P_PID, id, &end, WEXITED | WNOHANG | WNOWAIT) == 0;
    if (is_ours && end.si_pid == 0) continue;
    before(pid);
    if (is_ours && waitid(P_PID, id, &end, WEXITED | WNOHANG) == 0 && pid == owner_)
      outcome_ = exit_status_of(end.si_code, end.si_status);
    gone.push_back(pid);
  }
  for (const pid_t pid : gone) asked_.erase(pid);
  return !gone.empty();
}

void Remains::ask(const EndRequest& request) {
  for (auto& [pid, asked] : asked_) {
    if (std::exchange(asked, request.signal) == request.signal) continue;
    if (request.inside.contains(pid) || (request.group != 0 && getpgid(pid) == request.group)) continue;
    if (ends_with_its_input(pid)) continue;
    if (!passes_on_to_one_of(pid, request.inside)) kill(pid, request.signal);
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
