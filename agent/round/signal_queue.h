// The signals that ddprun handles, as events of its loop: blocked, and read from a descriptor, so that no handler
// interrupts other code (signalfd(2)).
//
// Threads created afterwards inherit the mask, as would children. For the main thread, once in a process.
#pragma once
#include <functional>
#include <set>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>

namespace ddprun::agent {

class SignalQueue {
 public:
  // Throws Error.
  SignalQueue(asio::io_context& io, const std::set<int>& signals);
  // In the order in which the kernel delivers them; pending signals of the same number count as one. `from_terminal`:
  // it came to the keeper's process group, so that others in it have got it, too.
  void on_signal(std::function<void(int signal, bool from_terminal)> handler);

 private:
  void await();
  void read_all();

  asio::posix::stream_descriptor file_;
  std::function<void(int, bool)> handler_;
};

}  // namespace ddprun::agent
