#include "agent/process/other_process.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLookEvery{5};

}  // namespace

OtherProcess::OtherProcess(pid_t pid, bool by_pidfd) : pid_(pid), by_pidfd_(by_pidfd) {
  if (by_pidfd)
    pidfd_ = open_pidfd(pid);
  else if (const auto stat = task_stat(pid))
    start_time_ = stat->start_time;
}

bool OtherProcess::is_same() const {
  const auto stat = task_stat(pid_);
  return stat && stat->start_time == start_time_;
}

// Its main thread may have ended, and others run.
bool OtherProcess::has_ended() const {
  const auto stat = task_stat(pid_);
  return !stat || stat->start_time != start_time_ || (stat->is_dead() && stat->threads <= 1);
}

bool OtherProcess::signal(int number) const {
  if (by_pidfd_) return signal_by_pidfd(pidfd_.get(), number);
  return *this && is_same() && kill(pid_, number) == 0;
}

void OtherProcess::await_end(steady_clock::time_point deadline) const {
  if (by_pidfd_) {
    pollfd end{pidfd_.get(), POLLIN, 0};
    const auto left = std::chrono::ceil<milliseconds>(deadline - steady_clock::now());
    poll(&end, 1, static_cast<int>(std::max(left, milliseconds(0)).count()));
  } else {
    while (!has_ended() && steady_clock::now() < deadline) std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace ddprun::agent
