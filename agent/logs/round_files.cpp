#include "agent/logs/round_files.h"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "agent/logs/log_layout.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kAtOnce{20}, kPollInterval{5};

}  // namespace

MadeFiles make_files(const WantedFiles& wanted) {
  MadeFiles made;
  try {
    make_log_folder(wanted.folder);
  } catch (const Error& error) {
    return {error.what(), {}};
  }
  for (const auto& file : wanted.own) made.own.emplace(file, open_own_file(file));
  for (const auto& file : wanted.ours) open_to_append(file);
  return made;
}

struct RoundFiles::Answer {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<int, MadeFiles> made;  // by rank
  bool ready = false;             // or given up
  bool in_work = true;

  bool wait(Duration most) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, most, [this] { return ready; });
  }
  void give(std::map<int, MadeFiles> all) {
    const std::lock_guard lock(mutex);
    in_work = false;
    if (std::exchange(ready, true)) return;
    made = std::move(all);
    changed.notify_all();
  }
  void give_up() {
    const std::lock_guard lock(mutex);
    ready = true;
  }
  bool stuck() {
    const std::lock_guard lock(mutex);
    return ready && in_work;
  }
};

RoundFiles::RoundFiles(asio::io_context& io, std::function<void(const std::string&)> say, Make make,
                       FileThread::Options limits)
    : make_(std::move(make)), limits_(limits), thread_(std::move(say), limits), timer_(io) {}

// While one that was given up is still in the kernel, no other round waits.
void RoundFiles::make(const std::filesystem::path& round_folder, std::map<int, WantedFiles> wanted,
                      const std::function<void()>& ready) {
  timer_.cancel();
  if (answer_ && answer_->stuck()) return ready();
  const auto answer = answer_ = std::make_shared<Answer>();
  const auto work = [answer, make = make_, wanted = std::move(wanted)] {
    std::map<int, MadeFiles> made;
    for (const auto& [rank, files] : wanted) made.emplace(rank, make(files));
    answer->give(std::move(made));
    return std::string();
  };
  if (!thread_.call("the log folder " + round_folder.string(), work)) {
    const MayWait as_there_is_no_thread;
    work();
  }
  if (answer->wait(kAtOnce)) return ready();
  await(answer, Clock::now() + limits_.told_late, ready);
}

void RoundFiles::await(const std::shared_ptr<Answer>& answer, TimePoint until, const std::function<void()>& ready) {
  if (answer != answer_) return;  // another round has come
  if (Clock::now() >= until) {
    answer->give_up();
    if (answer->stuck()) thread_.tell_late();
  }
  if (answer->wait(Duration::zero())) return ready();
  timer_.expires_after(kPollInterval);
  timer_.async_wait([this, answer, until, ready](const asio::error_code& error) {
    if (!error) await(answer, until, ready);
  });
}

std::optional<MadeFiles> RoundFiles::take(int rank) {
  if (!answer_) return {};
  const std::lock_guard lock(answer_->mutex);
  const auto made = answer_->made.find(rank);
  if (made == answer_->made.end()) return {};
  return MadeFiles{made->second.problem, std::exchange(made->second.own, {})};
}

}  // namespace ddprun::agent
