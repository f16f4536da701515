// The signals that ddprun acts on, as events of its loop: blocked, and read from a file, so that no handler ever runs
// in the middle of anything (signalfd(2)).
//
// Threads made from now on inherit the mask, and so would children. For the main thread, once in a process.
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
  // In the order in which the kernel hands them out; equal ones that wait together are one.
  void on_signal(std::function<void(int signal)> handler);

 private:
  void await();
  void read_all();

  asio::posix::stream_descriptor file_;
  std::function<void(int)> handler_;
};

}  // namespace ddprun::agent
