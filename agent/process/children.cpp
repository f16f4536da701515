#include "agent/process/children.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr microseconds kPause{50};  // between two looks: the dying need the core more than we do
constexpr microseconds kPauseMax{5'000};

// The kernel lists children per thread: one thread's list is not the process's. False without CONFIG_PROC_CHILDREN.
bool list_children(std::vector<pid_t>& out) {
  bool listed = false;
  std::error_code ignored;  // a thread may end while we look
  for (const auto& task : fs::directory_iterator("/proc/self/task", ignored)) {
    std::ifstream children(task.path() / "children");
    listed |= children.is_open();
    for (pid_t pid; children >> pid;) out.push_back(pid);
  }
  return listed;
}

pid_t parent_of(const fs::path& proc_entry) {
  std::ifstream file(proc_entry / "stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  pid_t parent = 0;  // the name may hold anything, also ')': the last one counts
  if (const auto end = line.rfind(')'); end != line.npos) std::sscanf(line.c_str() + end + 1, " %*c %d", &parent);
  return parent;
}

void scan_for_children(std::vector<pid_t>& out) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0 && parent_of(entry.path()) == getpid()) out.push_back(pid);
  }
}

}  // namespace

std::vector<pid_t> children() {
  std::vector<pid_t> out;
  if (!list_children(out)) scan_for_children(out);
  return out;
}

bool children_can_be_found() {
  std::error_code ignored;
  return fs::exists("/proc/self/stat", ignored);
}

ChildSweep::ChildSweep(std::vector<pid_t> spared) : spared_(std::move(spared)), pause_(kPause) {}

bool ChildSweep::step() {
  pid_t reaped = 0;
  bool progress = false;
  for (; (reaped = waitpid(-1, nullptr, WNOHANG | __WALL)) > 0; progress = true) std::erase(spared_, reaped);
  left_.clear();
  if (reaped < 0 && errno == ECHILD) return true;
  left_ = children();  // the dead are among them until they are reaped, so none is passed over
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

}  // namespace ddprun
