#include "agent/log_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <asio.hpp>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "agent/line_buffer.h"
#include "rendezvous/error.h"

namespace ddprun {
namespace {

constexpr std::size_t kReadBytes = 64 * 1024;
const std::string kFreshLine = "\r\x1b[K";  // a worker's progress bar may stand there

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd room{fd, POLLOUT, 0};
      poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

struct Ends {
  Fd read, write;
};

// Raw, so that the worker's bytes reach our own terminal as they are; the size as ours has it.
Ends open_terminal(int console_fd) {
  winsize size{};
  ioctl(console_fd, TIOCGWINSZ, &size);
  termios raw{};
  tcgetattr(console_fd, &raw);
  cfmakeraw(&raw);
  int master = -1, slave = -1;
  if (openpty(&master, &slave, nullptr, &raw, &size) != 0) return {};
  fcntl(master, F_SETFD, FD_CLOEXEC);
  fcntl(slave, F_SETFD, FD_CLOEXEC);
  return {Fd(master), Fd(slave)};
}

Ends open_ends(int console_fd) {
  if (isatty(console_fd))
    if (Ends ends = open_terminal(console_fd); ends.read) return ends;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error("cannot open a pipe for a worker's output", std::strerror(errno), "Raise the limit of open files.");
  return {Fd(ends[0]), Fd(ends[1])};
}

Fd open_log(const std::filesystem::path& file) {
  if (file.empty()) return {};
  Fd log(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!log) throw Error("cannot open the log file " + file.string(), std::strerror(errno), "Pass another --log-dir.");
  return log;
}

using Key = std::pair<int, int>;  // round, rank

}  // namespace

struct LogPipes::State : std::enable_shared_from_this<LogPipes::State> {
  // One worker's stream, from the pipe to its ends.
  struct Stream {
    LogStream wish;
    asio::posix::stream_descriptor pipe;
    Fd log;
    LineBuffer lines;
    bool console_lost = false;
  };

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::array<char, kReadBytes> buffer;
  mutable std::mutex mutex;  // guards what follows
  std::condition_variable idle;
  int pending = 0;            // open streams and unprinted texts
  std::map<Key, Tail> tails;  // of the newest round alone

  void read(const std::shared_ptr<Stream>& stream) {
    stream->pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                            [this, self = shared_from_this(), stream](const asio::error_code& error) {
                              if (!error && pass_on(*stream)) return read(stream);
                              close(*stream);
                            });
  }

  // False at the end: end of file, or EIO where a terminal's last writer has left.
  bool pass_on(Stream& stream) {
    const ssize_t size = ::read(stream.pipe.native_handle(), buffer.data(), buffer.size());
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (size <= 0) return false;
    const std::string_view bytes(buffer.data(), static_cast<std::size_t>(size));
    if (stream.wish.remember_tail) {
      const std::lock_guard lock(mutex);
      tails.erase(tails.begin(), tails.lower_bound({stream.wish.round, 0}));
      tails[{stream.wish.round, stream.wish.rank}].add(bytes);
    }
    if (stream.log && !write_all(stream.log.get(), bytes)) lose_log(stream);
    to_console(stream, stream.wish.whole_lines ? stream.lines.take(bytes) : std::string(bytes));
    return true;
  }

  void to_console(Stream& stream, const std::string& bytes) {
    if (!stream.console_lost && !write_all(stream.wish.console_fd, bytes)) stream.console_lost = true;
  }

  void lose_log(Stream& stream) {
    const std::string why = std::strerror(errno);
    stream.log.reset();
    to_console(stream, "ddprun: cannot write " + stream.wish.file.string() + ": " + why +
                           ". What follows is only on the console.\n");
  }

  void close(Stream& stream) {
    // Where others write too, a last line without its end gets one, or the next worker's line would hang on to it.
    if (std::string rest = stream.lines.take_rest(); !rest.empty()) to_console(stream, rest + "\n");
    end_one();
  }

  void begin_one() {
    const std::lock_guard lock(mutex);
    ++pending;
  }

  void end_one() {
    const std::lock_guard lock(mutex);
    --pending;
    idle.notify_all();
  }
};

LogPipes::LogPipes() : state_(std::make_shared<State>()) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are the main thread's
  std::thread([state = state_] { state->io.run(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogPipes::~LogPipes() { state_->io.stop(); }

Fd LogPipes::open(const LogStream& wish) {
  Fd log = open_log(wish.file);
  Ends ends = open_ends(wish.console_fd);
  fcntl(ends.read.get(), F_SETFL, O_NONBLOCK);
  auto stream = std::shared_ptr<State::Stream>(new State::Stream{
      wish, asio::posix::stream_descriptor(state_->io, ends.read.release()), std::move(log), {}, false});
  state_->begin_one();
  asio::post(state_->io, [state = state_, stream] { state->read(stream); });
  return std::move(ends.write);
}

std::vector<std::string> LogPipes::last_lines(int round, int rank) const {
  const std::lock_guard lock(state_->mutex);
  const auto found = state_->tails.find({round, rank});
  return found == state_->tails.end() ? std::vector<std::string>{} : found->second.lines();
}

void LogPipes::print(const std::string& text) {
  state_->begin_one();
  asio::post(state_->io, [state = state_, text] {
    write_all(STDERR_FILENO, isatty(STDERR_FILENO) ? kFreshLine + text : text);
    state->end_one();
  });
}

bool LogPipes::drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(state_->mutex);
  return state_->idle.wait_for(lock, limit, [this] { return state_->pending == 0; });
}

}  // namespace ddprun
