// Our own stdout or stderr for the log pipes: writes never block, and are few.
//
// Output that the console does not accept at once is queued in order. A writer checks full() before it writes and
// resumes through when_room(): so a slow reader slows the workers down, and the queue stays small.
//
// Not thread-safe: only the loop's thread calls it.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>

#include "agent/process/process.h"

namespace ddprun::agent {

// It is a pipe or a socket whose other end is closed.
bool nobody_reads(int fd);

class Console {
 public:
  static constexpr std::size_t kQueuedMax = std::size_t{512} * 1024;

  // `progress` is called when bytes were written, `idle` with false when the queue gets its first byte, with true when
  // all is written or given up.
  struct Listener {
    std::function<void()> progress;
    std::function<void(bool)> idle;
  };
  Console(asio::io_context& io, int fd, Listener listener);

  bool terminal() const { return terminal_; }
  bool same_place(int fd) const;  // the same pipe, terminal or file must have one queue, or lines would be torn
  bool full() const { return queue_.size() - written_ >= kQueuedMax; }
  bool busy() const { return flushing_; }
  void when_room(std::function<void()> then) { waiting_.push_back(std::move(then)); }

  // `compose` appends to the string it is given. `writer` identifies the writer, in case its progress bar is on screen.
  template <class Compose>
  void compose(const void* writer, Compose compose) {
    const std::size_t before = begin(writer);
    compose(queue_);
    end(writer, before);
  }
  void add(const void* writer, std::string_view text) {
    compose(writer, [&](std::string& queue) { queue += text; });
  }
  // Nobody reads it: queued and later output is dropped, so that at least the log files are completed.
  void abandon();

 private:
  enum class Kind { never_blocks, reopened, socket, other };

  std::size_t begin(const void* writer);
  void end(const void* writer, std::size_t before);
  void flush_soon();
  void flush();
  void flush_when_ready();
  long write_some(std::string_view bytes);
  void make_room();

  asio::io_context& io_;
  int fd_;
  Listener listener_;
  bool terminal_;
  Kind kind_ = Kind::other;
  asio::posix::stream_descriptor ready_;  // our own opening of the same pipe or terminal, which may be non-blocking
  asio::steady_timer retry_;              // if there is none
  std::string queue_;
  std::size_t written_ = 0;  // of queue_
  bool flushing_ = false, lost_ = false;
  const void* bar_of_ = nullptr;  // the writer of the progress bar in which the cursor is, at the line's start
  std::vector<std::function<void()>> waiting_;
};

}  // namespace ddprun::agent
