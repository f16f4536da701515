#include "agent/logs/console.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <asio/post.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace ddprun::agent {
namespace {

constexpr std::chrono::milliseconds kRetry{5};
constexpr const char* kClearLine = "\x1b[K";

struct stat status_of(int fd) {
  struct stat status {};
  if (fstat(fd, &status) != 0) status.st_mode = 0;
  return status;
}

// O_NONBLOCK applies to an open file description, which we share with the shell and the workers. So we open the same
// pipe or terminal again for ourselves.
int reopen(int fd) {
  return ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

}  // namespace

bool nobody_reads(int fd) {
  pollfd end{fd, POLLOUT, 0};
  return poll(&end, 1, 0) == 1 && (end.revents & (POLLERR | POLLHUP)) && !S_ISCHR(status_of(fd).st_mode);
}

Console::Console(asio::io_context& io, int fd, Listener listener)
    : io_(io), fd_(fd), listener_(std::move(listener)), terminal_(isatty(fd)), ready_(io), retry_(io) {
  const mode_t mode = status_of(fd).st_mode;
  if (S_ISSOCK(mode)) kind_ = Kind::socket;
  if (S_ISREG(mode) || (S_ISCHR(mode) && !terminal_)) kind_ = Kind::never_blocks;
  if (!S_ISFIFO(mode) && !terminal_) return;
  if (const int own = reopen(fd); own >= 0) {
    ready_.assign(own);
    kind_ = Kind::reopened;
  }
}

bool Console::same_place(int fd) const {
  const struct stat ours = status_of(fd_), other = status_of(fd);
  return ours.st_mode != 0 && ours.st_dev == other.st_dev && ours.st_ino == other.st_ino;
}

std::size_t Console::begin(const void* writer) {
  if (written_ > 0 && written_ == queue_.size()) {
    queue_.clear();
    written_ = 0;
  }
  const std::size_t before = queue_.size();
  if (terminal_ && bar_of_ && bar_of_ != writer) queue_ += kClearLine;
  return before;
}

void Console::end(const void* writer, std::size_t before) {
  if (lost_) return queue_.resize(before);
  if (queue_.size() == before) return;
  bar_of_ = queue_.back() == '\r' ? writer : nullptr;
  flush_soon();
}

// Deferred, so that streams that are ready at the same time share a write.
void Console::flush_soon() {
  if (std::exchange(flushing_, true)) return;
  listener_.idle(false);
  asio::post(io_, [this] { flush(); });
}

void Console::flush() {
  if (!flushing_) return;  // given up meanwhile
  while (written_ < queue_.size()) {
    const long taken = write_some(std::string_view(queue_).substr(written_));
    if (taken >= 0) {
      written_ += static_cast<std::size_t>(taken);
      listener_.progress();
    } else if (errno == EAGAIN) {
      make_room();
      return flush_when_ready();
    } else if (errno == ENOSPC || errno == EDQUOT) {
      written_ = queue_.size();  // a file: there may be space again later
    } else if (errno != EINTR) {
      return abandon();
    }
  }
  flushing_ = false;
  listener_.idle(true);
  make_room();
}

void Console::flush_when_ready() {
  const auto again = [this](const asio::error_code& error) {
    if (!error) flush();
  };
  if (kind_ == Kind::reopened) return ready_.async_wait(asio::posix::stream_descriptor::wait_write, again);
  retry_.expires_after(kRetry);
  retry_.async_wait(again);
}

long Console::write_some(std::string_view bytes) {
  if (kind_ == Kind::reopened) return ::write(ready_.native_handle(), bytes.data(), bytes.size());
  if (kind_ == Kind::socket) return ::send(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (kind_ == Kind::never_blocks) return ::write(fd_, bytes.data(), bytes.size());
  pollfd room{fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) == 0) return errno = EAGAIN, -1;
  return ::write(fd_, bytes.data(),
                 std::min<std::size_t>(bytes.size(), PIPE_BUF));  // a pipe that is ready has room for this much
}

// Removes what is written; waiting writers resume once half of the queue is free.
void Console::make_room() {
  if (written_ >= kQueuedMax / 2 || written_ == queue_.size()) {
    queue_.erase(0, written_);
    written_ = 0;
  }
  if (queue_.size() - written_ > kQueuedMax / 2) return;
  for (const auto& then : std::exchange(waiting_, {})) asio::post(io_, then);
}

void Console::abandon() {
  lost_ = true;
  retry_.cancel();
  if (ready_.is_open()) ready_.cancel();
  written_ = queue_.size();
  if (std::exchange(flushing_, false)) listener_.idle(true);
  make_room();
}

}  // namespace ddprun::agent
