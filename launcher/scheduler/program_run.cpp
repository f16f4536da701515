#include "launcher/scheduler/program_run.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>

#include "rendezvous/base/child_process.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/time.h"

namespace ddprun::launcher {
namespace {

constexpr std::size_t kProgramTextMax = std::size_t{64} << 20;
constexpr std::chrono::milliseconds kRestLimit{500};  // of the output, once the program has ended

std::string system_words(int error) { return std::generic_category().message(error); }

[[noreturn]] void refuse_start(const std::string& program, int error) {
  throw Error("cannot start " + program, system_words(error));
}

struct ProgramPipe {
  Fd read, write;
};
ProgramPipe program_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error("cannot make a pipe", system_words(errno));
  return {Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> words_for_exec(const std::vector<std::string>& words) {
  std::vector<char*> out;
  for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
  out.push_back(nullptr);
  return out;
}

// What posix_spawn() is told: three descriptors, no blocked or ignored signals, a session of its own.
class ProgramSpawn {
 public:
  ProgramSpawn() {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  ~ProgramSpawn() {
    posix_spawn_file_actions_destroy(&files_);
    posix_spawnattr_destroy(&attributes_);
  }
  ProgramSpawn(const ProgramSpawn&) = delete;
  ProgramSpawn& operator=(const ProgramSpawn&) = delete;

  void give(const Fd& fd, int as) { posix_spawn_file_actions_adddup2(&files_, fd.get(), as); }
  int start(pid_t& pid, const std::vector<std::string>& words) {
    return posix_spawnp(&pid, words[0].c_str(), &files_, &attributes_, words_for_exec(words).data(), environ);
  }

 private:
  posix_spawn_file_actions_t files_{};
  posix_spawnattr_t attributes_{};
};

// Kills and reaps a program that still runs.
class RunningProgram {
 public:
  RunningProgram(pid_t pid, const std::string& name) : pid_(pid), fd_(child_descriptor(pid)) {
    const int error = errno;
    if (fd_) return;
    end();
    refuse_start(name, error);
  }
  ~RunningProgram() {
    if (pid_ > 0) end();
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // With all that it has started in its session's first group.
  int end() {
    ::kill(-pid_, SIGKILL);
    return reap();
  }
  int reap() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
    return status;
  }
  int fd() const { return fd_.get(); }

 private:
  pid_t pid_;
  Fd fd_;
};

// One stream of the program, from our side.
struct ProgramStream {
  Fd fd;
  std::string* text = nullptr;

  void drain() {
    std::array<char, 65536> bytes;
    const ssize_t count = read(fd.get(), bytes.data(), bytes.size());
    if (count > 0)
      text->append(bytes.data(), std::min(static_cast<std::size_t>(count), kProgramTextMax - text->size()));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) fd.reset();
  }
};

// Feeds stdin and takes stdout and stderr until the program has ended, or until the limit.
class ProgramExchange {
 public:
  ProgramExchange(Fd in, Fd out, Fd err, const std::string& input, ProgramEnd& end)
      : in_(std::move(in)), out_{std::move(out), &end.out}, err_{std::move(err), &end.err}, input_(input) {
    fcntl(in_.get(), F_SETFL, O_NONBLOCK);
    if (input_.empty()) in_.reset();
  }

  // False: too late; it may be called again.
  bool run(const RunningProgram& child, TimePoint deadline) {
    while (!ended_)
      if (!step(child, deadline)) return false;
    // Something that it has started may have the rest, or keep the pipes open for days.
    const TimePoint rest = std::min(deadline, Clock::now() + kRestLimit);
    while ((out_.fd || err_.fd) && step(child, rest)) {
    }
    return true;
  }

 private:
  bool step(const RunningProgram& child, TimePoint deadline) {
    std::array<pollfd, 4> waits{{{out_.fd.get(), POLLIN, 0},
                                 {err_.fd.get(), POLLIN, 0},
                                 {in_.get(), POLLOUT, 0},
                                 {ended_ ? -1 : child.fd(), POLLIN, 0}}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (poll(waits.data(), waits.size(), static_cast<int>(left)) <= 0) return true;
    if (waits[0].revents) out_.drain();
    if (waits[1].revents) err_.drain();
    if (waits[2].revents) feed();
    ended_ = ended_ || waits[3].revents;
    return true;
  }

  void feed() {
    const ssize_t count = write(in_.get(), input_.data() + written_, input_.size() - written_);
    if (count > 0) written_ += static_cast<std::size_t>(count);
    if (written_ == input_.size() || (count < 0 && errno != EAGAIN && errno != EINTR)) in_.reset();
  }

  Fd in_;
  ProgramStream out_, err_;
  const std::string& input_;
  std::size_t written_ = 0;
  bool ended_ = false;
};

// A program that closes its stdin early must not end us.
class NoSigpipe {
 public:
  NoSigpipe() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~NoSigpipe() { std::signal(SIGPIPE, before_); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  void (*before_)(int);
};

void note_status(int status, ProgramEnd& end) {
  end.how = WIFSIGNALED(status) ? ProgramEnd::How::killed : ProgramEnd::How::exited;
  end.code = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit, const std::string& input,
                       const SlowProgram& slow) {
  const TimePoint deadline = Clock::now() + limit;
  ProgramEnd end;
  ProgramPipe in = program_pipe(), out = program_pipe(), err = program_pipe();
  pid_t pid = 0;
  {
    ProgramSpawn spawn;
    spawn.give(in.read, STDIN_FILENO);
    spawn.give(out.write, STDOUT_FILENO);
    spawn.give(err.write, STDERR_FILENO);
    const int error = spawn.start(pid, words);
    if (error == ENOENT) return end.how = ProgramEnd::How::not_found, end;
    if (error) refuse_start(words[0], error);
  }
  RunningProgram child(pid, words[0]);
  in.read.reset(), out.write.reset(), err.write.reset();
  const NoSigpipe ignored;
  ProgramExchange exchange(std::move(in.write), std::move(out.read), std::move(err.read), input, end);
  const bool in_time = slow.tell && exchange.run(child, std::min(deadline, Clock::now() + slow.after));
  if (!in_time && slow.tell && Clock::now() < deadline) slow.tell();
  if (in_time || exchange.run(child, deadline)) return note_status(child.reap(), end), end;
  child.end();
  end.how = ProgramEnd::How::too_late;
  return end;
}

void become_program(const std::vector<std::string>& words) {
  execvp(words[0].c_str(), words_for_exec(words).data());
  refuse_start(words[0], errno);
}

}  // namespace ddprun::launcher
