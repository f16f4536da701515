#include "agent/channel/file_timer.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "agent/process/other_process.h"
#include "agent/process/process_table.h"
#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kLineMax = 4096;  // PIPE_BUF: the most that a client can write atomically
constexpr int kAncestorsMax = 256;      // a limit in case the process table changes meanwhile
constexpr const char* kRemedy = "Set TORCHELASTIC_TIMER_FILE to another path, or leave it unset.";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw UsageError("cannot make the timer pipe " + path, why, kRemedy);
}

std::string fresh_path() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) number = static_cast<std::uint64_t>(getpid());
  std::error_code error;
  const fs::path folder = fs::temp_directory_path(error);
  if (error) throw UsageError("no folder for the timer pipe", error.message(), "Set TMPDIR.");
  char name[48];
  std::snprintf(name, sizeof name, "watchdog_timer_%016llx", static_cast<unsigned long long>(number));
  return folder / name;
}

// A pipe of this user without a reader was left by a run that was killed. Nothing else is ever removed.
void remove_leftover(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return;
  if (!S_ISFIFO(status.st_mode)) refuse(path, "the file there is not a pipe, and ddprun does not remove it");
  if (status.st_uid != geteuid()) refuse(path, "the pipe there belongs to another user");
  if (Fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)))
    refuse(path, "another job reads timers from this pipe");
  unlink(path.c_str());
}

// Also open for writing, so that the last client's close is no end of file.
Fd make_pipe(const std::string& path) {
  if (mkfifo(path.c_str(), 0600) != 0) {
    if (errno == EEXIST) remove_leftover(path);
    if (mkfifo(path.c_str(), 0600) != 0) refuse(path, std::strerror(errno));
  }
  Fd pipe(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (!pipe) refuse(path, std::strerror(errno));
  return pipe;
}

// The worker that is this process or its ancestor, or leads its session; 0: none.
pid_t owner_of(pid_t pid, const std::vector<pid_t>& workers) {
  const auto is_worker = [&](pid_t p) { return std::find(workers.begin(), workers.end(), p) != workers.end(); };
  for (int i = 0; i < kAncestorsMax && pid > 1 && pid != getpid(); ++i) {
    if (is_worker(pid)) return pid;
    const TaskStat process = task_stat(pid).value_or(TaskStat());
    if (is_worker(process.session)) return process.session;
    pid = process.parent;
  }
  return 0;
}

}  // namespace

FileTimer::FileTimer(asio::io_context& io, const std::string& path, Hooks hooks)
    : hooks_(std::move(hooks)),
      path_(path.empty() ? fresh_path() : path),
      pipe_(io, make_pipe(path_).release()),
      clock_(io, timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {
  struct stat status {};
  fstat(pipe_.native_handle(), &status);
  device_ = status.st_dev;
  inode_ = status.st_ino;
  read();
  await_expiry();
}

FileTimer::~FileTimer() {
  struct stat status {};
  if (lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ && status.st_ino == inode_) unlink(path_.c_str());
}

void FileTimer::read() {
  pipe_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    const ssize_t size = ::read(pipe_.native_handle(), buffer_.data(), buffer_.size());
    if (size > 0) held_.append(buffer_.data(), static_cast<std::size_t>(size));
    for (auto end = held_.find('\n'); end != std::string::npos; end = held_.find('\n')) {
      on_line(held_.substr(0, end));
      held_.erase(0, end + 1);
    }
    if (held_.size() > kLineMax) on_line(std::exchange(held_, {}));  // no request is this long: reported as a bad one
    arm();
    read();
  });
}

void FileTimer::on_line(const std::string& line) {
  if (line.empty()) return;
  std::visit(overloaded{
                 [&](const TimerRequest& request) {
                   if (!table_.apply(request, std::chrono::system_clock::now()))
                     print_once("there are " + std::to_string(TimerTable::kTimersMax) + " timers already");
                 },
                 [&](const std::string& mistake) { print_once(mistake); },
             },
             parse_timer_line(line));
}

void FileTimer::print_once(const std::string& what) {
  if (std::exchange(printed_, true)) return;
  hooks_.print("a timer request was ignored (" + what + "); further ones are not reported");
}

void FileTimer::arm() {
  const auto next = table_.next_expiry();
  itimerspec when{};  // all zero: off
  if (next) {
    const auto since = std::max(next->time_since_epoch(), WallTime::duration(1));
    const auto whole = std::chrono::duration_cast<std::chrono::seconds>(since);
    when.it_value.tv_sec = whole.count();
    when.it_value.tv_nsec = std::chrono::duration_cast<std::chrono::nanoseconds>(since - whole).count();
  }
  timerfd_settime(clock_.native_handle(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void FileTimer::await_expiry() {
  clock_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const asio::error_code& error) {
    if (error) return;
    std::uint64_t expirations = 0;
    [[maybe_unused]] const auto size = ::read(clock_.native_handle(), &expirations, sizeof expirations);
    await_expiry();
    on_timer();
  });
}

void FileTimer::on_timer() {
  const auto expired = table_.expire(std::chrono::system_clock::now());
  arm();
  for (const ExpiredTimer& timer : expired) signal(timer);
}

// The process is identified before the owner is checked: no other one can get the signal.
void FileTimer::signal(const ExpiredTimer& timer) {
  if (timer.signal <= 0) return;
  const OtherProcess process(timer.pid);
  if (!process) return;  // it has ended meanwhile
  const pid_t worker = owner_of(timer.pid, hooks_.workers());
  if (worker == 0) return print_once("process " + std::to_string(timer.pid) + " is not a worker of this job");
  if (!process.signal(timer.signal)) return;
  hooks_.on_expiry({worker, timer});
}

}  // namespace ddprun::agent
