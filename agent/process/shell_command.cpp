#include "agent/process/shell_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <asio/steady_timer.hpp>

#include "agent/process/process.h"
#include "rendezvous/base/handler_time.h"

namespace ddprun::agent {
namespace {

constexpr std::size_t kPipeBytes = std::size_t{64} << 10, kKeptMax = kPipeBytes;
constexpr std::chrono::milliseconds kReadPause{1};  // a command that writes as fast as it can takes no core of ours
constexpr int kReadsAtEnd = 16;                     // something that it left behind may write on

enum class ChildState { running, ended, reaped };

// Until it is reaped, by a sweep perhaps, its pid is its own.
ChildState state_of(const ChildProcess& child) {
  siginfo_t info{};
  if (wait_child(child, info, WEXITED | WNOHANG | WNOWAIT) != 0) return ChildState::reaped;
  return info.si_pid == 0 ? ChildState::running : ChildState::ended;
}

}  // namespace

// Our end of the pipe. Handlers hold it: they may run after the command's end.
struct ShellCommand::Output : std::enable_shared_from_this<Output> {
  Output(asio::io_context& io, int fd) : pipe(io, fd), pause(io) {}

  void wait() {
    pipe.async_wait(asio::posix::stream_descriptor::wait_read,
                    [self = shared_from_this()](const asio::error_code& error) {
                      if (!error && self->take() != Taken::end) self->wait_after_pause();
                    });
  }

  void wait_after_pause() {
    pause.expires_after(kReadPause);
    pause.async_wait([self = shared_from_this()](const asio::error_code& error) {
      if (!error) self->wait();
    });
  }

  enum class Taken { some, none, end };
  Taken take() {
    const ssize_t count = ::read(pipe.native_handle(), chunk.data(), chunk.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return Taken::none;
    if (count <= 0) return Taken::end;
    kept.append(chunk.data(), static_cast<std::size_t>(count));
    kept.erase(0, kept.size() - std::min(kept.size(), kKeptMax));
    return Taken::some;
  }

  void close() {
    for (int i = 0; i < kReadsAtEnd && take() == Taken::some; ++i) continue;
    asio::error_code ignored;
    pipe.close(ignored);
    pause.cancel();
  }

  asio::posix::stream_descriptor pipe;
  asio::steady_timer pause;
  std::string kept = {};
  std::array<char, kPipeBytes> chunk;
};

ShellCommand::ShellCommand(asio::io_context& io, std::string text, std::vector<std::string> environment,
                           bool keep_output)
    : io_(io), text_(std::move(text)), environment_(std::move(environment)), keep_output_(keep_output) {}

ShellCommand::~ShellCommand() {
  kill();
  if (output_) output_->close();
}

// The writing end.
Fd ShellCommand::open_output() {
  output_.reset();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  output_ = std::make_shared<Output>(io_, ends[0]);
  output_->wait();
  return Fd(ends[1]);
}

void ShellCommand::start(OnEnd on_end) {
  const MayWait until_it_is_executed;
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const Fd output = keep_output_ ? open_output() : Fd();
  SpawnRequest request{"/bin/sh", {"sh", "-c", text_}, environment_};
  request.stdin_fd = null.get();
  request.stdout_fd = request.stderr_fd = output ? output.get() : null.get();
  Spawned spawned = spawn(request);
  if (spawned.error) return on_end(rendezvous::ExitStatus{.start_error = spawned.error});
  on_end_ = std::move(on_end);
  running_.emplace(Running{spawned.pid, asio::posix::stream_descriptor(io_, spawned.fd.release())});
  wait();
}

void ShellCommand::wait() {
  running_->fd.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) collect();
  });
}

void ShellCommand::collect() {
  // The reactor may wake us for a descriptor that was closed before, whose place ours has taken.
  if (state_of(running_->child()) == ChildState::running) return wait();
  const auto status = reap(running_->child(), running_->pid);
  running_.reset();
  if (output_) output_->close();
  std::exchange(on_end_, {})(status);
}

void ShellCommand::kill() {
  if (running_ && state_of(running_->child()) != ChildState::reaped) ::kill(-running_->pid, SIGKILL);
}

std::optional<pid_t> ShellCommand::child() const { return running_ ? std::optional(running_->pid) : std::nullopt; }

std::string ShellCommand::last_line() const {
  std::string text = output_ ? output_->kept : "";
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace ddprun::agent
