#include "agent/process/file_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/base/thread.h"

namespace ddprun::agent {

// What the thread uses.
struct FileThread::Shared {
  struct Item {
    std::string what;
    std::size_t bytes;
    std::function<std::string()> write;
  };

  Shared(std::function<void(const std::string&)> tell, Options limits) : say(std::move(tell)), options(limits) {}

  const std::function<void(const std::string&)> say;
  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;  // the first one is being written
  std::size_t bytes = 0;
  std::optional<TimePoint> busy_since;
  std::map<std::string, int> dropped;  // since the file system last answered, by Item::what
  std::set<std::string> complained;    // Item::what
  bool runs = false, told = false, closed = false;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !items.empty() || closed; });
      if (items.empty()) return;
      busy_since = Clock::now();
      const std::function<std::string()> write = std::move(items.front().write);
      lock.unlock();
      const std::string complaint = write();
      lock.lock();
      if (!complaint.empty() && !closed && complained.insert(items.front().what).second) say(complaint);
      wrote();
    }
  }

  // Under the lock, as are the following.
  void wrote() {
    const Duration took = Clock::now() - *std::exchange(busy_since, std::nullopt);
    const std::string what = items.front().what;
    bytes -= items.front().bytes;
    items.pop_front();
    if (!closed && took >= options.told_after && !told) dropped.try_emplace(what, 0);
    if (!closed) tell("did not answer for", took);
    told = false;
    changed.notify_all();
  }

  void tell(const char* how, Duration took) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
    for (const auto& [what, lines] : std::exchange(dropped, {}))
      say(what + ": the file system " + how + " " + std::to_string(seconds) + " s" +
          (lines == 0 ? std::string()
                      : "; " + std::to_string(lines) + (lines == 1 ? " line is" : " lines are") + " lost"));
  }

  void tell_late() {
    if (told || !busy_since || Clock::now() - *busy_since < options.told_late) return;
    told = true;
    say(items.front().what + ": the file system has not answered for " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - *busy_since).count()) +
        " s; ddprun goes on without it");
  }

  // Where there can be no thread, the next write tries again.
  bool begin(const std::shared_ptr<Shared>& self, const std::string& what) {
    if (runs) return true;
    const std::string refused = start_detached([self] {
      pthread_setname_np(pthread_self(), "ddprun-files");
      self->run();
    });
    runs = refused.empty();
    if (!runs && complained.insert(what).second) say(what + " cannot be written now: " + refused);
    return runs;
  }
};

FileThread::FileThread(std::function<void(const std::string&)> say) : FileThread(std::move(say), Options{}) {}

FileThread::FileThread(std::function<void(const std::string&)> say, Options options)
    : shared_(std::make_shared<Shared>(std::move(say), options)) {}

FileThread::~FileThread() {
  drain(shared_->options.last_write_limit);
  const std::lock_guard lock(shared_->mutex);
  for (const Shared::Item& item : shared_->items) ++shared_->dropped[item.what];
  if (shared_->busy_since) shared_->tell("has not answered for", Clock::now() - *shared_->busy_since);
  shared_->closed = true;
  shared_->changed.notify_all();
}

bool FileThread::post(const std::string& what, std::size_t bytes, std::function<std::string()> write) {
  const std::lock_guard lock(shared_->mutex);
  shared_->tell_late();
  if (!shared_->begin(shared_, what)) return false;
  if (shared_->bytes + bytes > shared_->options.bytes_max) {
    ++shared_->dropped[what];
    return false;
  }
  shared_->bytes += bytes;
  shared_->items.push_back({what, bytes, std::move(write)});
  shared_->changed.notify_all();
  return true;
}

bool FileThread::drain(Duration most) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, most, [&] { return shared_->items.empty(); });
}

}  // namespace ddprun::agent
