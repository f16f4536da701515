// Takes the stacks of workers: native frames by ptrace and libdw, Python frames by py-spy or pystack where one of them
// is there. Linux, x86_64 and aarch64.
//
// A worker goes on as if nothing had happened; each of its threads is stopped for some 0.1 ms (thread_capture.h). What
// cannot be had is missing with a sentence, never an error. We must be an ancestor of the workers, have their user and
// the kernel's leave to trace them, or have CAP_SYS_PTRACE.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/stacks/process_stacks.h"

namespace ddprun::agent {

struct StackOptions {
  std::vector<std::string> environment = {};  // NAME=value: PYSPY_BIN and PATH; py-spy gets all of it
  bool python = true;                         // look for Python frames
  std::size_t threads_max = 256;              // of one process
};

// All native frames first, then the Python frames, one process after the other. Blocks, at most until `limit` and some
// 0.1 s; what was not reached by then says so. Call it from a thread of its own. The entries are in the order of
// `workers`.
std::vector<ProcessStacks> take_stacks(const std::vector<pid_t>& workers, Duration limit,
                                       const StackOptions& options = {});

class StackCollection;

// The same for an event loop, whose thread it belongs to.
class AsyncStacks {
 public:
  using OnTaken = std::function<void(std::vector<ProcessStacks>)>;
  AsyncStacks(asio::io_context& io, StackOptions options);
  // Calls nothing back any more. Waits, for some 0.1 s at most, until no thread of ours is at work.
  ~AsyncStacks();
  AsyncStacks(const AsyncStacks&) = delete;
  AsyncStacks& operator=(const AsyncStacks&) = delete;

  // One request after the other. `on_taken` is called by the loop, with what was taken until `limit` after the end of
  // the request before.
  void take(std::vector<pid_t> workers, Duration limit, OnTaken on_taken);
  bool busy() const { return collection_ != nullptr; }

 private:
  struct Request {
    std::vector<pid_t> workers;
    Duration limit;
    OnTaken on_taken;
  };
  void begin(Request request);
  void finish();

  asio::io_context& io_;
  const StackOptions options_;
  asio::steady_timer timer_;
  std::shared_ptr<StackCollection> collection_;
  std::shared_ptr<StackCollection*> token_;  // only we own it: it goes when this request is over
  OnTaken on_taken_;
  std::deque<Request> waiting_;
};

}  // namespace ddprun::agent
