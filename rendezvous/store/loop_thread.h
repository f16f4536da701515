// The thread of a store, or of a store proxy: repeats its turn until stop(), and does work that other threads post.
//
// A turn waits by poller(). The thread blocks all signals, as the agent handles them. If a turn throws, the error is
// reported and the next turn follows.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rendezvous/store/poller.h"

namespace ddprun::rendezvous {

// Work for a loop. From any thread, also when the loop is over.
class Mailbox {
 public:
  using Work = std::function<void()>;
  // False: the loop is over, and the work will not be done.
  bool post(Work work);

 private:
  friend class LoopThread;
  explicit Mailbox(Poller& poller) : poller_(&poller) {}
  std::vector<Work> take();
  void close();

  std::mutex mutex_;
  Poller* poller_;  // null: the loop is over
  std::vector<Work> work_;
};

class LoopThread {
 public:
  using Work = Mailbox::Work;
  // `name`: of the thread, at most 15 characters. `log`: called in that thread, "continued after an internal ...".
  LoopThread(const char* name, std::function<void(const std::string&)> log) : name_(name), log_(std::move(log)) {}
  ~LoopThread() { stop(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  Poller& poller() { return poller_; }
  const std::shared_ptr<Mailbox>& mailbox() { return mailbox_; }
  // There is no thread before begin(), which is due when poller().fd() can be read. In one thread; a second begin()
  // does nothing. Empty, or why there can be no thread: try again.
  void prepare(Work turn) { turn_ = std::move(turn); }
  [[nodiscard]] std::string begin();
  // Ends the thread after its current turn; waiting work is dropped. Not from the thread itself.
  void stop();

 private:
  void run();
  void attempt(const Work& work) const;

  const char* const name_;
  const std::function<void(const std::string&)> log_;
  Work turn_;
  Poller poller_;
  const std::shared_ptr<Mailbox> mailbox_{new Mailbox(poller_)};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace ddprun::rendezvous
