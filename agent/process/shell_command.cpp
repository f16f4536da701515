#include "agent/process/shell_command.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "agent/process/process.h"

namespace ddprun::agent {
namespace {

enum class ChildState { running, ended, reaped };

// Until it is reaped, by a sweep perhaps, its pid is its own.
ChildState state_of(int pidfd) {
  siginfo_t info{};
  if (waitid(P_PIDFD, static_cast<id_t>(pidfd), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return ChildState::reaped;
  return info.si_pid == 0 ? ChildState::running : ChildState::ended;
}

}  // namespace

ShellCommand::ShellCommand(asio::io_context& io, std::string text, std::vector<std::string> environment,
                           bool keep_output)
    : io_(io), text_(std::move(text)), environment_(std::move(environment)), keep_output_(keep_output) {}

ShellCommand::~ShellCommand() { kill(); }

void ShellCommand::start(OnEnd on_end) {
  const Fd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (keep_output_) output_ = Fd(memfd_create("ddprun-command", MFD_CLOEXEC));
  SpawnRequest request{"/bin/sh", {"sh", "-c", text_}, environment_};
  request.stdin_fd = null.get();
  request.stdout_fd = request.stderr_fd = output_ ? output_.get() : null.get();
  Spawned spawned = spawn(request);
  if (spawned.error) return on_end(rendezvous::ExitStatus{.start_error = spawned.error});
  on_end_ = std::move(on_end);
  running_.emplace(Running{spawned.pid, asio::posix::stream_descriptor(io_, spawned.pidfd.release())});
  wait();
}

void ShellCommand::wait() {
  running_->pidfd.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (!error) collect();
  });
}

void ShellCommand::collect() {
  // The reactor may wake us for a descriptor that was closed before, whose place ours has taken.
  if (state_of(running_->pidfd.native_handle()) == ChildState::running) return wait();
  const auto status = reap(running_->pidfd.native_handle(), running_->pid);
  running_.reset();
  std::exchange(on_end_, {})(status);
}

void ShellCommand::kill() {
  if (running_ && state_of(running_->pidfd.native_handle()) != ChildState::reaped) ::kill(-running_->pid, SIGKILL);
}

std::optional<pid_t> ShellCommand::child() const { return running_ ? std::optional(running_->pid) : std::nullopt; }

std::string ShellCommand::last_line() const {
  std::array<char, 4096> bytes;
  const off_t size = output_ ? lseek(output_.get(), 0, SEEK_END) : 0;
  const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(bytes.size()));
  const ssize_t count = size > 0 ? pread(output_.get(), bytes.data(), bytes.size(), begin) : 0;
  std::string text(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  while (text.ends_with('\n') || text.ends_with(' ')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

}  // namespace ddprun::agent
