#include "trainer/ddp/launch/launcher_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/signals_blocked.h"
#include "rendezvous/base/time.h"

namespace ddprun {
namespace {

constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
constexpr std::chrono::seconds kKillLimit{15};  // for its own SIGKILLs, after its workers' grace period
constexpr int kForwardedSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

struct Start {
  const char* program = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  pid_t parent = 0;
  int error = 0;
};

// Shares our memory while we wait, so only system calls are allowed.
int child_main(void* argument) {
  auto& start = *static_cast<Start*>(argument);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != start.parent) _exit(127);  // we were killed before it took effect
  execve(start.program, start.argv, start.environment);
  start.error = errno;
  _exit(127);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

struct Started {
  pid_t pid = -1;
  Fd fd;

  ChildProcess child() const { return {pid, fd.get()}; }
};

// fork() could be slow, as a program may have much memory and many fork handlers.
Started start(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  const auto argv = pointers(command), env = pointers(environment);
  Start plan{command.front().c_str(), argv.data(), env.data(), getpid(), 0};
  const auto stack = std::make_unique<char[]>(kStackBytes);
  Started started;
  {
    const SignalsBlocked blocked;  // our handlers would run in the child; ddprun unblocks what it needs
    started.pid = clone_child(child_main, stack.get() + kStackBytes, &plan, started.fd);
  }
  int error = started.pid < 0 ? errno : plan.error;
  if (error == 0 && !started.fd) started.fd = child_descriptor(started.pid);
  if (error == 0 && !started.fd) error = errno;
  if (error == 0) return started;
  if (started.pid > 0) {
    kill(started.pid, SIGKILL);
    waitpid(started.pid, nullptr, 0);
  }
  throw Error("cannot start " + command.front(), std::strerror(error));
}

struct Pipe {
  Fd out, in;
};

Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw Error("cannot launch", std::strerror(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

std::atomic<int> signal_pipe = -1;

// A terminal sends its signals to ddprun as well.
void on_signal(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const char byte = static_cast<char>(info->si_code == SI_KERNEL ? -signal : signal);
  [[maybe_unused]] const auto written = write(signal_pipe, &byte, 1);  // a full pipe holds enough of them
  errno = error;
}

// Turns signals that would end us while we wait into bytes in a pipe.
class SignalPipe {
 public:
  SignalPipe() : pipe_(make_pipe()) {
    signal_pipe = pipe_.in.get();
    struct sigaction note = {};
    note.sa_sigaction = on_signal;
    note.sa_flags = SA_SIGINFO | SA_RESTART;
    for (const int signal : kForwardedSignals) {
      struct sigaction now = {};
      if (sigaction(signal, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL) continue;
      if (sigaction(signal, &note, nullptr) == 0) handled_signals_.push_back(signal);
    }
  }
  ~SignalPipe() {
    for (const int signal : handled_signals_) std::signal(signal, SIG_DFL);
    signal_pipe = -1;
  }
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;
  int fd() const { return pipe_.out.get(); }

 private:
  Pipe pipe_;
  std::vector<int> handled_signals_;
};

class LauncherWait {
 public:
  LauncherWait(Started launcher, const SignalPipe& signals, const LaunchOptions& options)
      : launcher_(std::move(launcher)), signals_(signals), options_(options) {
    if (options.timeout) deadline_ = Clock::now() + *options.timeout;
  }

  LauncherEnd run() {
    pollfd fds[] = {{launcher_.fd.get(), POLLIN, 0}, {signals_.fd(), POLLIN, 0}};
    do {
      poll(fds, 2, wait_ms());
      if (fds[1].revents) take_signals();
      if (deadline_ && Clock::now() >= *deadline_) on_timeout();
    } while (!fds[0].revents);
    return ended();
  }

 private:
  int wait_ms() const {
    if (!deadline_) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long>(left, 0, INT_MAX));
  }
  void signal(int number) { signal_child(launcher_.child(), number); }

  void take_signals() {
    char bytes[16];
    const ssize_t n = read(signals_.fd(), bytes, sizeof bytes);
    for (ssize_t i = 0; i < n; ++i) {
      end_.signal = std::abs(bytes[i]);
      if (bytes[i] > 0) signal(bytes[i]);
    }
  }
  void on_timeout() {
    signal(end_.timed_out ? SIGKILL : SIGTERM);
    deadline_ = end_.timed_out ? std::nullopt : std::optional(Clock::now() + options_.stop_grace + kKillLimit);
    end_.timed_out = true;
  }
  LauncherEnd ended() {
    siginfo_t info = {};
    const bool reaped = wait_child(launcher_.child(), info, WEXITED) == 0;
    end_.exit_code = !reaped ? 1 : info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    return end_;
  }

  Started launcher_;
  const SignalPipe& signals_;
  const LaunchOptions& options_;
  std::optional<TimePoint> deadline_;
  LauncherEnd end_;
};

}  // namespace

std::string first_executable(const std::vector<std::string>& candidates) {
  for (const std::string& place : candidates) {
    struct stat status = {};
    if (stat(place.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(place.c_str(), X_OK) == 0) return place;
  }
  return "";
}

LauncherEnd run_launcher(const std::vector<std::string>& command, const std::vector<std::string>& environment,
                         const LaunchOptions& options) {
  const SignalPipe signals;
  return LauncherWait(start(command, environment), signals, options).run();
}

}  // namespace ddprun
