#include "agent/process/leftovers.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "agent/process/files/file_content.h"
#include "agent/process/other_process.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kScansMax = 200;             // scans of /proc; a program that keeps changing its pid needed a dozen
constexpr milliseconds kWaitLimit{5'000};  // a driver may hold a dying process for longer: go on

// After the main thread has ended, only the other threads show it.
std::string environment_of_a_thread(const fs::path& process) {
  for (const fs::path& thread : threads_of(process))
    if (std::string found = file_content(thread / "environ"); !found.empty()) return found;
  return {};
}

std::optional<JobCookie> cookie_in(const std::string& environment) {
  const std::string text = '\0' + environment, name = std::string(1, '\0') + kCookieVariable + "=";
  const std::size_t at = text.find(name);
  return at == text.npos ? std::nullopt : parse_cookie(text.c_str() + at + name.size());
}

bool is_leftover(const JobCookie& found, const JobCookie& own) {
  return found.run_id == own.run_id && found.pid_namespace == own.pid_namespace && !agent_lives(found);
}

class LeftoverSearch {
 public:
  explicit LeftoverSearch(const JobCookie& own) : own_(own) { examined_.insert(own.agent); }

  // Returns whether to scan again: a process was ended, or vanished before it was identified and may have a new pid.
  bool scan() {
    std::set<pid_t> unidentified;
    const std::size_t ended_before = ended_.size();
    const std::vector<pid_t> all = all_processes();
    for (auto pid = all.rbegin(); pid != all.rend(); ++pid) {  // the newest first: it may be short-lived
      if (examined_.contains(*pid)) continue;
      const bool identified = examine(*pid), before = unidentified_.contains(*pid);
      (identified || before ? examined_ : unidentified).insert(*pid);  // a zombie remains one
    }
    unidentified_ = std::move(unidentified);
    return ended_.size() > ended_before || !unidentified_.empty();
  }

  // They may hold a port or a device that the job needs.
  void await_ends() const {
    const auto deadline = steady_clock::now() + kWaitLimit;
    for (const auto& [pid, process] : ended_) process.await_end(deadline);
  }

  int ended() const { return static_cast<int>(ended_.size()); }

 private:
  // False if it cannot be identified: dying, dead, or between two programs.
  bool examine(pid_t pid) {
    OtherProcess process(pid);  // before reading: what we read is what we end
    const fs::path entry = table_entry(pid);
    std::string environment = file_content(entry / "environ");
    if (environment.empty()) {
      const TaskStat stat = task_stat(entry).value_or(TaskStat());
      if (stat.is_kernel_thread() || is_another_users(entry)) return true;
      if (stat.threads > 1) environment = environment_of_a_thread(entry);
    }
    if (environment.empty()) return false;
    const auto cookie = cookie_in(environment);
    if (!cookie || !is_leftover(*cookie, own_)) return true;
    if (!process.signal(SIGKILL)) return false;
    ended_.emplace(pid, std::move(process));
    return true;
  }

  static bool is_another_users(const fs::path& entry) {
    return access((entry / "environ").c_str(), R_OK) != 0 && errno == EACCES;
  }

  const JobCookie& own_;
  std::set<pid_t> examined_, unidentified_;
  std::map<pid_t, OtherProcess> ended_;
};

}  // namespace

int end_leftovers(const JobCookie& own) {
  LeftoverSearch search(own);
  for (int scans = 1; search.scan() && scans < kScansMax; ++scans) continue;
  search.await_ends();
  return search.ended();
}

}  // namespace ddprun::agent
