#include "agent/process/keeper_watch.h"

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "agent/process/children.h"
#include "agent/process/keeper.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kNoticeLimit{2'000};  // for the main thread to notice the death itself
constexpr std::chrono::milliseconds kFilesLimit{2'000};   // for its last files, once all children are gone

std::atomic<bool> noticed = false;

void end_after(int keeper_fd) {
  pollfd death{keeper_fd, POLLIN, 0};
  while (poll(&death, 1, -1) < 0 && errno == EINTR) continue;
  std::this_thread::sleep_for(kNoticeLimit);
  if (noticed)
    std::this_thread::sleep_for(kEndLimit + kFilesLimit);
  else
    end_all_children(kEndLimit);
  _exit(kKeeperDied);
}

}  // namespace

void watch_keeper_in_thread(int keeper_fd) {
  try {
    std::thread(end_after, keeper_fd).detach();
  } catch (const std::system_error&) {  // no thread: the main thread still notices unless it is stuck
  }
}

void main_has_noticed_keeper_death() { noticed = true; }

}  // namespace ddprun::agent
