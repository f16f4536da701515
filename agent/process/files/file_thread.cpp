#include "agent/process/files/file_thread.h"

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

std::atomic<bool> any_thread_left = false;

}  // namespace

// What the thread uses.
struct FileThread::Shared {
  struct Item {
    std::string what;
    std::size_t bytes;
    std::function<std::string()> work;
    bool writes;
  };
  struct Lost {
    int lines = 0;
    bool file = false;
  };

  Shared(std::function<void(const std::string&)> tell, Options limits) : say(std::move(tell)), options(limits) {}

  const std::function<void(const std::string&)> say;
  const Options options;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;  // the first one is being written
  std::size_t bytes = 0;
  std::optional<TimePoint> busy_since;
  std::map<std::string, Lost> dropped;  // since the file system last answered, by Item::what
  std::set<std::string> complained;     // Item::what
  bool runs = false, told = false, given_up = false, closed = false;

  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return !items.empty() || closed; });
      if (items.empty()) return;
      busy_since = Clock::now();
      const std::function<std::string()> work = std::move(items.front().work);
      lock.unlock();
      const std::string complaint = work();
      lock.lock();
      if (!complaint.empty() && !given_up && complained.insert(items.front().what).second) say(complaint);
      done();
    }
  }

  // Under the lock, as are the following.
  void done() {
    const Duration took = Clock::now() - *std::exchange(busy_since, std::nullopt);
    const std::string what = items.front().what;
    bytes -= items.front().bytes;
    items.pop_front();
    if (took >= options.told_after && !told) dropped.try_emplace(what);
    tell("did not answer for", took);
    told = false;
    changed.notify_all();
  }

  void tell(const char* how, Duration took) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
    for (const auto& [what, lost] : std::exchange(dropped, {}))
      if (!given_up) say(what + ": the file system " + how + " " + std::to_string(seconds) + " s" + in_words(lost));
  }

  static std::string in_words(const Lost& lost) {
    if (lost.file) return "; it is not written";
    if (lost.lines == 0) return {};
    return "; " + std::to_string(lost.lines) + (lost.lines == 1 ? " line is" : " lines are") + " lost";
  }

  void drop(const Item& item) {
    Lost& lost = dropped[item.what];
    lost.file |= item.writes && item.bytes == 0;
    lost.lines += item.writes && item.bytes > 0;
  }

  bool add(const std::shared_ptr<Shared>& self, Item item) {
    tell_late(options.told_late);
    if (!begin(self, item)) return false;
    if (bytes + item.bytes > options.bytes_max) {
      drop(item);
      return false;
    }
    bytes += item.bytes;
    items.push_back(std::move(item));
    changed.notify_all();
    return true;
  }

  bool written_within(std::unique_lock<std::mutex>& lock, Duration most) {
    return changed.wait_for(lock, most, [&] { return items.empty(); });
  }

  void tell_late(Duration after) {
    if (told || given_up || !busy_since || Clock::now() - *busy_since < after) return;
    told = true;
    say(items.front().what + ": the file system has not answered for " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - *busy_since).count()) +
        " s; ddprun goes on without it");
  }

  // Where there can be no thread, the next write tries again.
  bool begin(const std::shared_ptr<Shared>& self, const Item& item) {
    if (runs) return true;
    const std::string refused = start_detached([self] {
      pthread_setname_np(pthread_self(), "ddprun-files");
      self->run();
    });
    runs = refused.empty();
    if (!runs && item.writes && complained.insert(item.what).second)
      say(item.what + " cannot be written now: " + refused);
    return runs;
  }
};

FileThread::FileThread(std::function<void(const std::string&)> say) : FileThread(std::move(say), Options{}) {}

FileThread::FileThread(std::function<void(const std::string&)> say, Options options)
    : shared_(std::make_shared<Shared>(std::move(say), options)) {}

FileThread::~FileThread() {
  give_up();
  const std::lock_guard lock(shared_->mutex);
  if (!shared_->items.empty()) any_thread_left = true;
  shared_->closed = true;
  shared_->changed.notify_all();
}

bool FileThread::any_left() { return any_thread_left; }

void FileThread::give_up() {
  std::unique_lock lock(shared_->mutex);
  if (shared_->given_up || shared_->written_within(lock, shared_->options.last_write_limit)) return;
  for (const Shared::Item& item : shared_->items) shared_->drop(item);
  if (shared_->busy_since) shared_->tell("has not answered for", Clock::now() - *shared_->busy_since);
  shared_->given_up = true;
}

bool FileThread::post(const std::string& what, std::size_t bytes, std::function<std::string()> write) {
  const std::lock_guard lock(shared_->mutex);
  return shared_->add(shared_, {what, bytes, std::move(write), true});
}

bool FileThread::call(const std::string& what, std::function<std::string()> work) {
  const std::lock_guard lock(shared_->mutex);
  return shared_->add(shared_, {what, 0, std::move(work), false});
}

void FileThread::tell_late() {
  const std::lock_guard lock(shared_->mutex);
  shared_->tell_late(Duration::zero());
}

bool FileThread::late() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->busy_since && Clock::now() - *shared_->busy_since >= kReadLimit;
}

bool FileThread::drain(Duration most) {
  std::unique_lock lock(shared_->mutex);
  return shared_->written_within(lock, most);
}

}  // namespace ddprun::agent
