#include "ddprun/data_loader.h"

#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include "rendezvous/base/error.h"
#include "rendezvous/base/signals_blocked.h"
#include "rendezvous/channel/beat_scope.h"

namespace ddprun::detail {
namespace {

// The current exception's first line, as some append a stack, without the full stop that Error adds.
std::string exception_text() {
  std::string why;
  try {
    throw;
  } catch (const std::exception& error) {
    why = error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
  why.resize(std::min(why.find('\n'), why.size()));
  while (!why.empty() && why.back() == '.') why.pop_back();
  return why.empty() ? "an exception without a message" : why;
}

void check_between(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  throw Error("cannot load data", std::string(name) + " is " + std::to_string(value) + " and has to be from " +
                                      std::to_string(least) + " to " + std::to_string(most));
}

}  // namespace

void check_loader_options(const LoaderOptions& options) {
  check_between("batch_size", options.batch_size, 1, std::int64_t{1} << 31);
  check_between("threads", options.threads, 0, kLoaderThreadsMax);
  check_between("prefetch", options.prefetch, 0, kPrefetchMax);
}

void throw_about_sample(std::int64_t index, std::int64_t epoch) {
  throw Error("cannot load sample " + std::to_string(index) + " of epoch " + std::to_string(epoch), exception_text());
}

void throw_about_batch(std::int64_t first_index, std::int64_t epoch) {
  throw Error("cannot collate the batch of epoch " + std::to_string(epoch) + " that begins with sample " +
                  std::to_string(first_index),
              exception_text());
}

struct JobQueue::State {
  struct Slot {
    bool done = false;
    std::shared_ptr<void> result;
    std::exception_ptr failure;
  };

  State(std::int64_t jobs, Job job, int capacity)
      : jobs(jobs), job(std::move(job)), slots(static_cast<std::size_t>(capacity)) {}

  const std::int64_t jobs;
  const Job job;
  std::atomic<bool> stop{false};
  std::mutex mutex;
  std::condition_variable slot_free, result_ready;
  // Guarded by the mutex: jobs below `taken` were handed out, jobs below `claimed` are done or running. Job j's slot is
  // j % slots.size().
  std::int64_t taken = 0, claimed = 0;
  bool failed = false;  // later results are not needed
  std::vector<Slot> slots;
  std::vector<std::thread> threads;

  Slot& slot(std::int64_t j) { return slots[static_cast<std::size_t>(j) % slots.size()]; }

  Slot make(std::int64_t j) const {
    Slot made{.done = true, .result = {}, .failure = {}};
    try {
      made.result = job(j, stop);
    } catch (...) {
      made.failure = std::current_exception();
    }
    return made;
  }

  bool is_over() const { return stop || failed || claimed == jobs; }

  void work(const std::function<void()>& thread_init) {
    std::exception_ptr init_failure;
    try {
      if (thread_init) thread_init();
    } catch (...) {
      init_failure = std::make_exception_ptr(Error("cannot start a thread that loads data", exception_text()));
    }
    std::unique_lock lock(mutex);
    for (;;) {
      slot_free.wait(lock, [&] { return is_over() || claimed < taken + static_cast<std::int64_t>(slots.size()); });
      if (is_over()) return;
      const std::int64_t mine = claimed++;
      lock.unlock();
      Slot made = init_failure ? Slot{.done = true, .result = {}, .failure = init_failure} : make(mine);
      lock.lock();
      failed = failed || made.failure;
      slot(mine) = std::move(made);
      if (mine == taken) result_ready.notify_one();
    }
  }

  void shut_down() {
    stop = true;
    { const std::lock_guard lock(mutex); }  // threads that did not see `stop` are waiting now
    slot_free.notify_all();
    for (auto& thread : threads) thread.join();
  }
};

JobQueue::JobQueue(std::int64_t jobs, const LoaderOptions& options, Job job) {
  const int capacity = options.prefetch > 0 ? options.prefetch : std::max(1, 2 * options.threads);
  state_ = std::make_unique<State>(jobs, std::move(job), capacity);
  try {
    const SignalsBlocked blocked;
    for (int i = 0; i < options.threads && i < jobs && i < capacity; ++i)
      state_->threads.emplace_back(
          [state = state_.get(), thread_init = options.thread_begins] { state->work(thread_init); });
  } catch (const std::system_error& error) {
    state_->shut_down();
    throw Error("cannot start " + std::to_string(options.threads) + " threads to load data", error.code().message(),
                "Use fewer of them, or raise the limit of processes.");
  }
}

JobQueue::~JobQueue() {
  if (state_) state_->shut_down();
}

std::shared_ptr<void> JobQueue::next() {
  State& s = *state_;
  if (s.taken == s.jobs) return nullptr;
  const LoadScope load;
  State::Slot& slot = s.slot(s.taken);
  if (s.threads.empty()) {
    if (!slot.failure) slot = s.make(s.taken);
  } else {
    std::unique_lock lock(s.mutex);
    s.result_ready.wait(lock, [&] { return slot.done; });
  }
  // The slot is ours from here on: its thread is done with it, and no other thread gets it before `taken` increases.
  if (slot.failure) std::rethrow_exception(slot.failure);
  auto result = std::move(slot.result);
  const std::lock_guard lock(s.mutex);
  slot = {};
  ++s.taken;
  s.slot_free.notify_one();
  return result;
}

}  // namespace ddprun::detail
