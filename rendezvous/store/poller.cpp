#include "rendezvous/store/poller.h"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::milliseconds kLongestWait{3'600'000};  // epoll counts in int milliseconds

int milliseconds_until(TimePoint until) {
  if (until == TimePoint::max()) return -1;
  const Duration left = std::clamp<Duration>(until - Clock::now(), Duration::zero(), kLongestWait);
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

int need(int fd) {
  if (fd >= 0) return fd;
  throw Error("cannot wait for the store's clients", std::generic_category().message(errno),
              "Raise the limit of open files (ulimit -n).");
}

}  // namespace

Poller::Poller() : epoll_(need(epoll_create1(EPOLL_CLOEXEC))), wake_(need(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))) {
  add(wake_.get(), EPOLLIN, kWakeTag);
}

void Poller::add(int fd, std::uint32_t events, std::uint64_t tag) { control(EPOLL_CTL_ADD, fd, events, tag); }

void Poller::change(int fd, std::uint32_t events, std::uint64_t tag) { control(EPOLL_CTL_MOD, fd, events, tag); }

void Poller::remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }

void Poller::control(int operation, int fd, std::uint32_t events, std::uint64_t tag) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = tag;
  if (epoll_ctl(epoll_.get(), operation, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll");
}

std::span<const epoll_event> Poller::wait(TimePoint until) {
  const int count = epoll_wait(epoll_.get(), events_.data(), static_cast<int>(kEventsMax), milliseconds_until(until));
  if (count <= 0) return {};  // the only possible error is EINTR, by a debugger
  const auto end = std::remove_if(events_.begin(), events_.begin() + count, [this](const epoll_event& event) {
    eventfd_t ignored = 0;
    return event.data.u64 == kWakeTag && eventfd_read(wake_.get(), &ignored) == 0;
  });
  return {events_.begin(), end};
}

void Poller::wake() { eventfd_write(wake_.get(), 1); }

}  // namespace ddprun::rendezvous
