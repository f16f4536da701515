#include "agent/process/children.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr microseconds kPause{50};  // between two steps: dying processes need the core more than we do
constexpr microseconds kPauseMax{5'000};

// The kernel lists children per thread, so all threads are read. False without CONFIG_PROC_CHILDREN.
bool list_children(const fs::path& process, std::vector<pid_t>& out) {
  bool listed = false;
  for (const fs::path& thread : threads_of(process)) {
    const fs::path list = thread / "children";
    listed |= access(list.c_str(), R_OK) == 0;
    const std::string pids = file_content(list);
    for (const std::string_view pid : words_in(pids))
      out.push_back(static_cast<pid_t>(std::strtol(pid.data(), nullptr, 10)));
  }
  return listed;
}

void scan_for_children(pid_t parent, std::vector<pid_t>& out) {
  for (const pid_t pid : all_processes())
    if (const auto process = task_stat(pid); process && process->parent == parent) out.push_back(pid);
}

}  // namespace

std::vector<pid_t> children() {
  std::vector<pid_t> out;
  if (!list_children("/proc/self", out)) scan_for_children(getpid(), out);
  return out;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  if (!list_children(table_entry(parent), out)) scan_for_children(parent, out);
  return out;
}

std::vector<pid_t> started_by(pid_t process) {
  std::vector<pid_t> all = children_of(process);
  for (std::size_t i = 0; i < all.size() && all.size() < kStartedMax; ++i)
    for (const pid_t child : children_of(all[i])) all.push_back(child);
  return all;
}

// Not what is in it: qemu's user mode writes a shorter one of its own.
bool children_can_be_found() { return access("/proc/self/stat", R_OK) == 0; }

ChildSweep::ChildSweep(std::vector<pid_t> spared) : spared_(std::move(spared)), pause_(kPause) {}

bool ChildSweep::step() {
  pid_t reaped = 0;
  bool progress = false;
  for (; (reaped = waitpid(-1, nullptr, WNOHANG | __WALL)) > 0; progress = true) std::erase(spared_, reaped);
  left_.clear();
  if (reaped < 0 && errno == ECHILD) return true;
  left_ = children();  // includes the dead until they are reaped, so none is missed
  std::erase_if(left_, [&](pid_t pid) { return std::find(spared_.begin(), spared_.end(), pid) != spared_.end(); });
  if (left_.empty() && !spared_.empty()) return true;
  for (const pid_t child : left_) kill(child, SIGKILL);
  pause_ = progress ? kPause : std::min(pause_ * 2, kPauseMax);
  return false;
}

std::vector<pid_t> end_all_children(milliseconds limit, std::vector<pid_t> spared) {
  ChildSweep sweep(std::move(spared));
  for (const auto deadline = steady_clock::now() + limit; !sweep.step() && steady_clock::now() <= deadline;)
    std::this_thread::sleep_for(sweep.pause());
  return sweep.left();
}

}  // namespace ddprun::agent
