#include "rendezvous/store/loop_thread.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <utility>

#include "rendezvous/base/thread.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::uint64_t kSliceNs = 100'000;  // the shortest that the kernel allows

// The first version of the kernel's sched_attr; glibc has it only since 2.41.
struct SchedulingAttributes {
  std::uint32_t size = sizeof(SchedulingAttributes);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0, deadline_ns = 0, period_ns = 0;
};

// Turns are short, and clients wait for them: since Linux 6.12 a thread that asks for short slices gets the processor
// at once while others are in a long one, such as a peer's TLS handshake or a worker's step. It gets no more time than
// before. Older kernels ignore it.
void request_short_slices() {
  SchedulingAttributes own;
  if (syscall(SYS_sched_getattr, 0, &own, sizeof own, 0) != 0 || own.policy != SCHED_OTHER) return;
  own.runtime_ns = kSliceNs;
  syscall(SYS_sched_setattr, 0, &own, 0);  // if refused, nothing changes
}

}  // namespace

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

std::string LoopThread::begin() {
  return thread_.joinable() ? "" : start_thread(thread_, [this] { run(); });
}

void LoopThread::stop() {
  stopping_ = true;
  poller_.wake();
  if (thread_.joinable()) thread_.join();
  mailbox_->close();
}

void LoopThread::run() {
  pthread_setname_np(pthread_self(), name_);
  request_short_slices();
  while (!stopping_) {
    for (const Work& work : mailbox_->take()) attempt(work);
    attempt(turn_);
  }
}

void LoopThread::attempt(const Work& work) const try { work(); } catch (const std::exception& error) {
  log_(std::string("continued after an internal error: ") + error.what());
}

}  // namespace ddprun::rendezvous
