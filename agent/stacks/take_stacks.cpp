#include "agent/stacks/take_stacks.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <asio/post.hpp>

#include "agent/stacks/python_tool.h"
#include "agent/stacks/stack_unwinder.h"
#include "agent/stacks/thread_capture.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/thread.h"

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kLeaveMax{
    100};  // until a thread that was told to stop has, unless the kernel holds it

ProcessStacks native_stacks(pid_t pid, StackUnwinder& unwinder, const StackOptions& options, TimePoint deadline) {
  CapturedProcess captured = capture(pid, options.threads_max, deadline);
  unwinder.unwind(captured);
  ProcessStacks stacks{pid};
  for (CapturedThread& thread : captured.threads) stacks.threads.push_back(std::move(thread.about));
  stacks.missing = std::move(captured.missing);
  stacks.longest_pause = captured.longest_pause;
  return stacks;
}

ToolResult python_stacks(pid_t pid, const PythonProcess& process, const StackOptions& options, TimePoint deadline) {
  const PythonTool tool = find_python_tool(process, options.environment);
  if (tool.command.empty())
    return {"", "neither py-spy nor pystack was found (" + tool.searched + "); install one: pip install py-spy"};
  return run_python_tool(tool.command, pid, options.environment, deadline);
}

}  // namespace

// Shared by the thread that takes the stacks and who waits for them: the kernel may hold that thread for longer than
// the limit, as at a process whose memory map is locked.
class StackCollection : public std::enable_shared_from_this<StackCollection> {
 public:
  StackCollection(const std::vector<pid_t>& workers, StackOptions options, TimePoint deadline)
      : workers_(workers), options_(std::move(options)), deadline_(deadline) {
    for (const pid_t pid : workers) stacks_.push_back({.pid = pid, .missing = "there was no time left for it"});
  }

  // Once. `on_done` is called in another thread, or at once if there can be none.
  void start(std::function<void()> on_done) {
    on_done_ = std::move(on_done);
    if (const std::string refused = start_detached([self = shared_from_this()] { self->run(); }); !refused.empty())
      give_up("no stacks: " + refused);
  }

  void wait(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline, [&] { return done_; });
  }

  // What was taken. on_done is not called any more, and nothing is begun any more.
  std::vector<ProcessStacks> end() {
    const std::lock_guard lock(mutex_);
    on_done_ = {};
    stop_ = true;
    return stacks_;
  }

 private:
  bool may_go_on() const { return !stop_ && Clock::now() < deadline_; }

  void run() {
    take_native();
    take_python();
    finish();
  }

  void give_up(const std::string& why) {
    for (ProcessStacks& stacks : stacks_) stacks.missing = why;
    finish();
  }

  void finish() {
    const std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
    if (on_done_) on_done_();
  }

  void take_native() {
    StackUnwinder unwinder;
    for (std::size_t i = 0; i < workers_.size() && may_go_on(); ++i) {
      ProcessStacks taken = native_stacks(workers_[i], unwinder, options_, deadline_);
      if (options_.python) python_.push_back(python_process(workers_[i]));
      const std::lock_guard lock(mutex_);
      stacks_[i] = std::move(taken);
    }
  }

  void take_python() {
    for (std::size_t i = 0; i < python_.size(); ++i) {
      if (!python_[i]) continue;
      ToolResult result{"", "there was no time left for them"};
      if (may_go_on()) result = python_stacks(workers_[i], python_[i], options_, deadline_);
      const std::lock_guard lock(mutex_);
      stacks_[i].python = std::move(result.text);
      stacks_[i].python_missing = std::move(result.missing);
    }
  }

  const std::vector<pid_t> workers_;
  const StackOptions options_;
  const TimePoint deadline_;
  std::vector<PythonProcess> python_;  // of the workers reached; only run() uses it
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::vector<ProcessStacks> stacks_;
  std::function<void()> on_done_;
  bool done_ = false;
};

std::vector<ProcessStacks> take_stacks(const std::vector<pid_t>& workers, Duration limit, const StackOptions& options) {
  const TimePoint deadline = Clock::now() + limit;
  const auto collection = std::make_shared<StackCollection>(workers, options, deadline);
  collection->start({});
  collection->wait(deadline + kLeaveMax);
  return collection->end();
}

AsyncStacks::AsyncStacks(asio::io_context& io, StackOptions options)
    : io_(io), options_(std::move(options)), timer_(io) {}

AsyncStacks::~AsyncStacks() {
  if (!collection_) return;
  collection_->end();
  collection_->wait(Clock::now() + kLeaveMax);
}

void AsyncStacks::take(std::vector<pid_t> workers, Duration limit, OnTaken on_taken) {
  Request request{std::move(workers), limit, std::move(on_taken)};
  if (busy())
    waiting_.push_back(std::move(request));
  else
    begin(std::move(request));
}

void AsyncStacks::begin(Request request) {
  const TimePoint deadline = Clock::now() + request.limit;
  on_taken_ = std::move(request.on_taken);
  collection_ = std::make_shared<StackCollection>(request.workers, options_, deadline);
  // Either handler may run after our end, or at the next request's time.
  const std::weak_ptr<StackCollection*> token = token_ = std::make_shared<StackCollection*>(collection_.get());
  timer_.expires_at(deadline);
  timer_.async_wait([this, token](const asio::error_code& error) {
    if (!error && token.lock()) finish();
  });
  collection_->start([this, &io = io_, token] {
    asio::post(io, [this, token] {
      if (token.lock()) finish();
    });
  });
}

void AsyncStacks::finish() {
  timer_.cancel();
  token_.reset();
  const auto collection = std::exchange(collection_, nullptr);
  const OnTaken on_taken = std::exchange(on_taken_, {});
  if (!waiting_.empty()) {
    Request next = std::move(waiting_.front());
    waiting_.pop_front();
    begin(std::move(next));
  }
  on_taken(collection->end());
}

}  // namespace ddprun::agent
