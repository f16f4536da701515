// Waits until descriptors can be read or written: epoll(7), level-triggered, with a way to wake it.
//
// Not Asio: its reactor rearms a descriptor by a system call for every wait, and a handler, a timer and a queue for
// each connection cost memory. Here a descriptor is registered once, and changed only when the awaited events change.
//
// One thread waits; others may call wake() only. Owns no descriptor but its own.
#pragma once
#include <sys/epoll.h>

#include <array>
#include <cstdint>
#include <span>

#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

class Poller {
 public:
  Poller();  // throws Error

  // `events`: EPOLLIN, EPOLLOUT; errors are always reported. `tag` comes back in data.u64. Throws std::system_error.
  void add(int fd, std::uint32_t events, std::uint64_t tag);
  void change(int fd, std::uint32_t events, std::uint64_t tag);
  // Call it before closing: a child between clone and exec still holds the descriptor, and its events would continue.
  void remove(int fd);

  // The ready descriptors, at most kEventsMax; none after `until` or wake().
  std::span<const epoll_event> wait(TimePoint until);
  void wake();
  int fd() const { return epoll_.get(); }  // can be read while something is ready

 private:
  static constexpr std::size_t kEventsMax = 256;
  static constexpr std::uint64_t kWakeTag = ~0ull;

  void control(int operation, int fd, std::uint32_t events, std::uint64_t tag);

  const Fd epoll_, wake_;
  std::array<epoll_event, kEventsMax> events_{};
};

}  // namespace ddprun::rendezvous
