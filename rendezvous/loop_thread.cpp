#include "rendezvous/loop_thread.h"

#include <pthread.h>

#include <cstdio>
#include <exception>
#include <utility>

#include "rendezvous/signals_blocked.h"

namespace ddprun {

bool Mailbox::post(Work work) {
  const std::lock_guard lock(mutex_);
  if (!poller_) return false;
  work_.push_back(std::move(work));
  poller_->wake();
  return true;
}

std::vector<Mailbox::Work> Mailbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(work_, {});
}

void Mailbox::close() {
  std::vector<Work> dropped;
  const std::lock_guard lock(mutex_);
  poller_ = nullptr;
  dropped.swap(work_);
}

void LoopThread::start(Work turn) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this, turn = std::move(turn)] { run(turn); });
}

void LoopThread::stop() {
  stopping_ = true;
  poller_.wake();
  if (thread_.joinable()) thread_.join();
  mailbox_->close();
}

void LoopThread::run(const Work& turn) {
  pthread_setname_np(pthread_self(), name_);
  while (!stopping_) {
    for (const Work& work : mailbox_->take()) attempt(work);
    attempt(turn);
  }
}

void LoopThread::attempt(const Work& work) const try { work(); } catch (const std::exception& error) {
  std::fprintf(stderr, "ddprun: %s goes on after an internal error: %s\n", what_, error.what());
}

}  // namespace ddprun
