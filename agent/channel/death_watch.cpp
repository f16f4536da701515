#include "agent/channel/death_watch.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "agent/process/process_table.h"
#include "rendezvous/base/signals_blocked.h"

namespace ddprun::agent {
namespace {

using std::chrono::milliseconds;

#ifndef SYS_futex_waitv
constexpr long SYS_futex_waitv = 449;  // the same on all architectures
#endif
constexpr std::uint32_t kWord32 = 2, kOurProcess = FUTEX_PRIVATE_FLAG;  // of futex_waitv(2)
constexpr std::size_t kWordsPerWait = 128, kWordsPerWorker = 2;         // FUTEX_WAITV_MAX; the first is our own
constexpr int kHintsMax = 8;                                            // per worker: it may call exec() a few times

struct WaitWord {  // struct futex_waitv, which older headers lack
  std::uint64_t value, address;
  std::uint32_t flags, unused = 0;
};

bool kernel_waits_for_many() { return syscall(SYS_futex_waitv, nullptr, 0, 0, nullptr, 0) < 0 && errno == EINVAL; }

// A worker that writes garbage into its page may wake us constantly. After kBurst wake-ups in a row we allow one per
// millisecond.
class WakeupBudget {
 public:
  void spend() {
    const auto now = Clock::now();
    left_ = std::min<std::int64_t>(kBurst, left_ + (now - since_) / milliseconds(1));
    since_ += (now - since_) / milliseconds(1) * milliseconds(1);
    if (left_ > 0) return void(--left_);
    std::this_thread::sleep_for(milliseconds(1));
  }

 private:
  static constexpr std::int64_t kBurst = 1024;
  std::int64_t left_ = kBurst;
  TimePoint since_ = Clock::now();
};

// Wait until the word changes from `seen`.
struct Wait {
  std::uint32_t* word;
  std::uint32_t seen;
  bool dead = false;
};

// Without an owner to wait for, wait until one attaches.
Wait next_wait(ddprun_channel_page& page) {
  const Wait owner_to_come{&page.attached, __atomic_load_n(&page.attached, __ATOMIC_ACQUIRE)};
  std::uint32_t* const word = owner_word(page);
  if (!word) return owner_to_come;
  std::uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);
  if (seen & FUTEX_OWNER_DIED) return {owner_to_come.word, owner_to_come.seen, true};
  if ((seen & FUTEX_TID_MASK) == 0) return owner_to_come;
  // The kernel wakes nobody without this bit. If the word has changed meanwhile, the wait ends at once.
  if (!(seen & FUTEX_WAITERS) &&
      __atomic_compare_exchange_n(word, &seen, seen | FUTEX_WAITERS, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    seen |= FUTEX_WAITERS;
  return {word, seen};
}

void wake(std::uint32_t* word, int flag) { syscall(SYS_futex, word, FUTEX_WAKE | flag, INT_MAX, nullptr, nullptr, 0); }

}  // namespace

// One thread and the workers it watches.
class DeathWatch::Watcher {
 public:
  Watcher(const std::function<void(Token)>& on_hint, bool alone) : on_hint_(on_hint), alone_(alone) {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { run(); });
  }

  ~Watcher() {
    stopping_ = true;
    change();
    while (alone_ && !ended_) {  // it may have started to wait before it saw the change
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      change();
    }
    thread_.join();
  }

  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }

  // Not seen by the thread before change().
  void add(Token token, std::shared_ptr<ddprun_channel_page> page) {
    const std::lock_guard lock(mutex_);
    entries_.emplace(token, Entry{std::move(page)});
  }

  // The thread waits for the page as well until it wakes up, which does no harm.
  bool remove(Token token) {
    const std::lock_guard lock(mutex_);
    return entries_.erase(token) > 0;
  }

  void change() {
    __atomic_add_fetch(&changes_, 1, __ATOMIC_RELEASE);
    wake(&changes_, kOurProcess);
    if (std::uint32_t* const word = asleep_on_) wake(word, 0);
  }

 private:
  struct Entry {
    std::shared_ptr<ddprun_channel_page> page;   // shared: the worker's channel may be closed while we still read
    std::optional<std::uint32_t> reported = {};  // value of `attached` at the last report of a death
    int hints = 0;
    std::uint32_t notices = 0;  // the value of `notices` that was reported
    int notice_hints = 0;
  };

  void run() {
    for (WakeupBudget budget; !stopping_; budget.spend()) {
      const std::uint32_t changes = __atomic_load_n(&changes_, __ATOMIC_ACQUIRE);
      std::vector<std::shared_ptr<ddprun_channel_page>> watched;
      const std::vector<Wait> waits = scan(watched);
      if (!stopping_) alone_ ? wait_for_one(changes, waits) : wait_for_any(changes, waits);
    }
    ended_ = true;
  }

  // Reports new deaths. `keep` holds the pages while we wait.
  std::vector<Wait> scan(std::vector<std::shared_ptr<ddprun_channel_page>>& keep) {
    const std::lock_guard lock(mutex_);  // also held in on_hint_: no forgotten token is reported
    std::vector<Wait> waits;
    for (auto& [token, entry] : entries_) {
      keep.push_back(entry.page);
      waits.push_back(next_wait(*entry.page));
      if (waits.back().dead && entry.reported != waits.back().seen) {
        entry.reported = waits.back().seen;
        if (++entry.hints <= kHintsMax) on_hint_(token);
      }
      const std::uint32_t notices = __atomic_load_n(&entry.page->notices, __ATOMIC_ACQUIRE);
      waits.push_back({&entry.page->notices, notices});
      if (std::exchange(entry.notices, notices) != notices && ++entry.notice_hints <= kHintsMax) on_hint_(token);
    }
    return waits;
  }

  void wait_for_any(std::uint32_t changes, const std::vector<Wait>& waits) {
    std::vector<WaitWord> words{{changes, reinterpret_cast<std::uintptr_t>(&changes_), kWord32 | kOurProcess}};
    for (const Wait& w : waits) words.push_back({w.seen, reinterpret_cast<std::uintptr_t>(w.word), kWord32});
    syscall(SYS_futex_waitv, words.data(), words.size(), 0, nullptr, 0);
  }

  // An older kernel waits for one word only, so changes are checked ten times a second.
  void wait_for_one(std::uint32_t changes, const std::vector<Wait>& waits) {
    constexpr timespec kPollInterval{0, 100'000'000};
    if (waits.empty()) return void(syscall(SYS_futex, &changes_, FUTEX_WAIT_PRIVATE, changes, nullptr, nullptr, 0));
    asleep_on_ = waits.front().word;
    syscall(SYS_futex, waits.front().word, FUTEX_WAIT, waits.front().seen, &kPollInterval, nullptr, 0);
    asleep_on_ = nullptr;
  }

  const std::function<void(Token)>& on_hint_;
  const bool alone_;
  std::atomic<bool> stopping_{false}, ended_{false};
  std::atomic<std::uint32_t*> asleep_on_{nullptr};  // a word of a page; waking it without a waiter does no harm
  std::uint32_t changes_ = 0;
  std::mutex mutex_;
  std::map<Token, Entry> entries_;
  std::thread thread_;
};

DeathWatch::DeathWatch(std::function<void(Token)> on_hint, Kernel kernel)
    : on_hint_(std::move(on_hint)),
      workers_per_thread_(kernel == Kernel::as_found && kernel_waits_for_many() ? (kWordsPerWait - 1) / kWordsPerWorker
                                                                                : 1) {}

DeathWatch::~DeathWatch() = default;

DeathWatch::Watcher* DeathWatch::one_with_room() {
  for (const auto& watcher : watchers_)
    if (watcher->size() < workers_per_thread_) return watcher.get();
  try {
    return watchers_.emplace_back(std::make_unique<Watcher>(on_hint_, workers_per_thread_ == 1)).get();
  } catch (const std::system_error&) {
    return nullptr;
  }
}

void DeathWatch::watch(const std::vector<std::pair<Token, const ChannelPage*>>& workers) {
  std::set<Watcher*> changed;
  for (const auto& [token, page] : workers)
    if (Watcher* const watcher = one_with_room()) {
      watcher->add(token, page->memory());
      changed.insert(watcher);
    }
  for (Watcher* const watcher : changed) watcher->change();
}

void DeathWatch::forget(Token token) {
  for (const auto& watcher : watchers_)
    if (watcher->remove(token)) return;
}

namespace {

// SIGKILL is pending for, or has reached, the other threads only if the whole process ends.
bool another_thread_is_killed(pid_t pid) {
  const auto threads = threads_of(table_entry(pid));
  return std::any_of(threads.begin(), threads.end(), [&](const std::filesystem::path& thread) {
    if (thread.filename() == std::to_string(pid)) return false;
    const auto stat = task_stat(thread);
    return (stat && stat->is_exiting()) || is_pending(thread, SIGKILL);
  });
}

}  // namespace

std::optional<rendezvous::ExitStatus> dying_status(pid_t pid) {
  const auto task = task_stat(pid);
  if (!task || !task->is_exiting() || task->wait_status == 0) return {};
  if (!task->ends_by_signal() && task->threads > 1 && !another_thread_is_killed(pid)) return {};
  if (const int signal = task->wait_status & 0x7f) return rendezvous::ExitStatus{.signal = signal};
  return rendezvous::ExitStatus{.code = task->wait_status >> 8 & 0xff};
}

}  // namespace ddprun::agent
