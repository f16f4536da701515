// The thread of a store, or of a store proxy: it takes turns until it is told to end, and others may hand it work.
//
// It waits in its turn, by poller(). It blocks all signals, which are the agent's to handle. What a turn throws is
// told, and the next one follows.
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

// Where work waits for a loop. From any thread, also when the loop is over.
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
  // `name`: of the thread, at most 15 characters. `say`: in that thread, "went on after an internal error: ...".
  LoopThread(const char* name, std::function<void(const std::string&)> say) : name_(name), say_(std::move(say)) {}
  ~LoopThread() { stop(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  Poller& poller() { return poller_; }
  const std::shared_ptr<Mailbox>& mailbox() { return mailbox_; }
  void start(Work turn);
  // At the end of the turn that is under way; work that waits is dropped. Not from the thread itself.
  void stop();

 private:
  void run(const Work& turn);
  void attempt(const Work& work) const;

  const char* const name_;
  const std::function<void(const std::string&)> say_;
  Poller poller_;
  const std::shared_ptr<Mailbox> mailbox_{new Mailbox(poller_)};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace ddprun::rendezvous
