#include "tests/support/command.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <ostream>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>

extern char** environ;

namespace ddprun::test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kMarkName = "DDPRUN_TEST_MARK";
constexpr const char* kStateVariable = "XDG_STATE_HOME";  // where jobs leave records: not in the home of who runs tests
constexpr int kPipeBytes = 1 << 20;

int checked(int result, const char* what) {
  if (result < 0) throw std::system_error(errno, std::generic_category(), what);
  return result;
}

void close_once(int& fd) {
  if (fd >= 0) close(fd);
  fd = -1;
}

milliseconds left(Clock::time_point until) {
  return std::max(milliseconds{0}, std::chrono::ceil<milliseconds>(until - Clock::now()));
}

std::string shown(const std::string& out, const std::string& err) {
  return "\n--- stdout\n" + out + "\n--- stderr\n" + err + "\n---";
}

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    int ends[2];
    checked(pipe2(ends, O_CLOEXEC), "pipe2");
    read = ends[0];
    write = ends[1];
    fcntl(write, F_SETPIPE_SZ, kPipeBytes);
  }
};

int open_terminal(std::string& name) {
  int terminal = checked(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), "posix_openpt");
  checked(grantpt(terminal), "grantpt");
  checked(unlockpt(terminal), "unlockpt");
  name = ptsname(terminal);
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  ioctl(terminal, TIOCSWINSZ, &size);
  return terminal;
}

std::vector<std::string> environment_with(const CommandOptions& options, const std::string& mark) {
  std::vector<std::string> result;
  const bool has_home = options.env.count("HOME") || options.env.count(kStateVariable);
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const std::string name = text.substr(0, text.find('='));
    if (name != kMarkName && name != kStateVariable && !options.env.count(name)) result.push_back(text);
  }
  if (!has_home) result.push_back(std::string(kStateVariable) + "=/dev/null");
  for (const auto& [name, value] : options.env)
    if (value) result.push_back(name + "=" + *value);
  result.push_back(std::string(kMarkName) + "=" + mark);
  return result;
}

std::vector<char*> pointers(std::vector<std::string>& arguments) {
  std::vector<char*> result;
  for (auto& argument : arguments) result.push_back(argument.data());
  result.push_back(nullptr);
  return result;
}

// Like execvpe, but before the fork: afterwards only async-signal-safe calls are allowed.
std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  std::istringstream folders(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((folder + "/" + name).c_str(), X_OK) == 0) return folder + "/" + name;
  throw std::runtime_error("no such program: " + name);
}

struct ChildPlan {
  const char* program;
  char* const* argv;
  char* const* envp;
  const char* cwd;
  const char* terminal;  // null: pipes
  int in, out, err;
  pid_t parent;
};

[[noreturn]] void exec_child(const ChildPlan& plan) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(126);
  setsid();
  int in = plan.in, out = plan.out, err = plan.err;
  if (plan.terminal) {
    in = out = err = open(plan.terminal, O_RDWR);
    ioctl(in, TIOCSCTTY, 0);
  }
  if (dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
  if (plan.terminal && in > 2) close(in);
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &plain, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (*plan.cwd && chdir(plan.cwd) != 0) _exit(126);
  execve(plan.program, plan.argv, plan.envp);
  _exit(127);
}

std::string slurp(const std::string& path) {
  std::ostringstream out;  // operator<< hides the error if reading a file of /proc fails
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// The fields after the name: state, parent and more (proc(5)); empty if the process has ended.
std::string state_of(const std::string& proc) {
  const std::string stat = slurp(proc + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end == std::string::npos || name_end + 4 > stat.size() ? "" : stat.substr(name_end + 2);
}

bool is_alive(const std::string& proc) {
  const std::string state = state_of(proc);
  return !state.empty() && !std::strchr("ZX", state[0]);
}

bool has_entry(const std::string& environment, const std::string& entry) {
  const std::string with_ends = std::string(1, '\0') + environment;
  return with_ends.find(std::string(1, '\0') + entry + '\0') != std::string::npos;
}

std::vector<Process> processes_with(const std::vector<std::string>& entries) {
  std::vector<Process> result;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string proc = entry.path();
    const std::string name = entry.path().filename();
    if (!std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isdigit(c); })) continue;
    const std::string environment = slurp(proc + "/environ");
    const bool ours = std::all_of(entries.begin(), entries.end(), [&](auto& e) { return has_entry(environment, e); });
    const std::string state = state_of(proc);
    if (!ours || state.empty() || std::strchr("ZX", state[0])) continue;
    std::string command_line = slurp(proc + "/cmdline");
    std::replace(command_line.begin(), command_line.end(), '\0', ' ');
    result.push_back({std::stoi(name), std::atoi(state.c_str() + 1), command_line});
  }
  return result;
}

// Reads all available data; closes at the end of file.
void drain(int& fd, std::string& to) {
  std::array<char, 65536> buffer;
  while (fd >= 0) {
    const ssize_t count = read(fd, buffer.data(), buffer.size());
    if (count > 0) {
      to.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count < 0 && errno == EINTR) {
      continue;
    } else if (count < 0 && errno == EAGAIN) {
      return;
    } else {  // end of file; EIO if a terminal lost its last user
      close_once(fd);
    }
  }
}

std::vector<std::string> groups_of(const std::smatch& match) { return {match.begin(), match.end()}; }

}  // namespace

Ended exited(int code) { return {.code = code, .signal = 0}; }
Ended killed_by(int signal) { return {.code = -1, .signal = signal}; }
bool operator==(const Ended& a, const Ended& b) { return a.code == b.code && a.signal == b.signal; }

std::ostream& operator<<(std::ostream& to, const Ended& ended) {
  if (ended.signal)
    to << "killed by SIG" << sigabbrev_np(ended.signal);
  else
    to << "exit code " << ended.code;
  if (!ended.out.empty() || !ended.err.empty()) to << shown(ended.out, ended.err);
  return to;
}

std::ostream& operator<<(std::ostream& to, const Process& process) {
  return to << process.pid << " " << process.command_line;
}

Command::Command(std::vector<std::string> argv, CommandOptions options) : argv_(std::move(argv)) {
  static std::atomic<int> count{0};
  mark_ = std::to_string(getpid()) + "-" + std::to_string(++count) + "-" +
          std::to_string(Clock::now().time_since_epoch().count());
  start(options);
}

void Command::start(const CommandOptions& options) {
  const std::string program = find_program(argv_.at(0));
  auto environment = environment_with(options, mark_);
  const auto argv = pointers(argv_), envp = pointers(environment);
  ChildPlan plan{program.c_str(), argv.data(), envp.data(), options.cwd.c_str(), nullptr, -1, -1, -1, getpid()};
  std::string terminal_name;
  std::vector<int> for_child;
  if (options.terminal) {
    out_fd_ = open_terminal(terminal_name);
    plan.terminal = terminal_name.c_str();
    // Held until the child is reaped: a terminal that no process has open yet reads as hung up.
    for_child.push_back(checked(open(plan.terminal, O_RDWR | O_NOCTTY | O_CLOEXEC), "open terminal"));
  } else {
    Pipe in, out, err;
    if (static_cast<ssize_t>(options.input.size()) != ::write(in.write, options.input.data(), options.input.size()))
      throw std::runtime_error("the input does not fit into a pipe");
    close(in.write);
    plan.in = in.read, plan.out = out.write, plan.err = err.write;
    out_fd_ = out.read, err_fd_ = err.read;
    for_child = {plan.in, plan.out, plan.err};
  }
  pid_ = checked(fork(), "fork");
  if (pid_ == 0) exec_child(plan);
  pidfd_ = checked(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), "pidfd_open");
  if (options.terminal) {  // until the child has opened the terminal itself
    const std::string fd0 = "/proc/" + std::to_string(pid_) + "/fd/0";
    eventually(
        [&] {
          std::error_code e;
          return std::filesystem::read_symlink(fd0, e) == terminal_name || !is_alive("/proc/" + std::to_string(pid_));
        },
        milliseconds{5000});
  }
  for (int fd : for_child) close(fd);
  for (int fd : {out_fd_, err_fd_})
    if (fd >= 0) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

Command::~Command() {
  try {
    eventually(
        [&] {
          const auto living = processes();
          for (const auto& process : living) ::kill(process.pid, SIGKILL);
          if (!ended_) ::kill(pid_, SIGKILL);
          return living.empty();
        },
        milliseconds{10000});
  } catch (const std::exception&) {  // /proc changes during the read; the kill below follows anyway
  }
  if (!ended_) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (int* fd : {&pidfd_, &out_fd_, &err_fd_}) close_once(*fd);
}

const std::string& Command::out() {
  pump(milliseconds{0});
  return out_;
}

const std::string& Command::err() {
  pump(milliseconds{0});
  return err_;
}

Mark Command::mark() {
  pump(milliseconds{0});
  return {out_.size(), err_.size()};
}

void Command::pump(milliseconds wait) {
  std::array<pollfd, 3> fds{{{out_fd_, POLLIN, 0}, {err_fd_, POLLIN, 0}, {ended_ ? -1 : pidfd_, POLLIN, 0}}};
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
  int status = 0;
  const bool over = !ended_ && waitpid(pid_, &status, WNOHANG) == pid_;
  drain(out_fd_, out_);  // after the waitpid: all it wrote is in the pipe by now
  drain(err_fd_, err_);
  if (over) ended_ = WIFEXITED(status) ? exited(WEXITSTATUS(status)) : killed_by(WTERMSIG(status));
}

std::vector<std::string> Command::wait_for_output(const std::string& pattern, milliseconds limit, Mark after) {
  const auto until = Clock::now() + limit;
  const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
  auto search = [&](const std::string& text, std::size_t from) -> std::vector<std::string> {
    std::smatch match;
    if (from > text.size() ||
        !std::regex_search(text.begin() + static_cast<std::ptrdiff_t>(from), text.end(), match, regex))
      return {};
    return groups_of(match);
  };
  pump(milliseconds{0});
  for (;;) {
    if (auto groups = search(out_, after.out); !groups.empty()) return groups;
    if (auto groups = search(err_, after.err); !groups.empty()) return groups;
    if (ended_ && out_fd_ < 0 && err_fd_ < 0) give_up("ended without writing /" + pattern + "/");
    if (Clock::now() >= until) give_up("did not write /" + pattern + "/ in " + std::to_string(limit.count()) + " ms");
    pump(left(until));
  }
}

Ended Command::wait_exit(milliseconds limit) {
  const auto until = Clock::now() + limit;
  pump(milliseconds{0});
  while (!ended_) {
    if (Clock::now() >= until) give_up("did not end in " + std::to_string(limit.count()) + " ms");
    pump(left(until));
  }
  Ended result = *ended_;
  result.out = out_;
  result.err = err_;
  return result;
}

bool Command::ended() {
  pump(milliseconds{0});
  return ended_.has_value();
}

void Command::kill(int signal) const {
  if (!ended_) checked(::kill(pid_, signal), "kill");
}

void Command::type(std::string_view text) const {
  if (out_fd_ < 0) return;  // it has ended, and its terminal with it: no process would read it
  if (::write(out_fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::system_error(errno, std::generic_category(), "write to the terminal");
}

std::vector<Process> Command::processes() const { return processes_with({std::string(kMarkName) + "=" + mark_}); }

std::vector<Process> Command::processes(const std::string& variable, const std::string& value) const {
  return processes_with({std::string(kMarkName) + "=" + mark_, variable + "=" + value});
}

pid_t Command::wait_for_process(const std::string& variable, const std::string& value, milliseconds limit) {
  const auto until = Clock::now() + limit;
  for (;;) {
    pump(milliseconds{0});
    const auto found = processes(variable, value);
    for (const Process& one : found)  // pids wrap around: the lowest may belong to a child
      if (std::none_of(found.begin(), found.end(), [&](auto& other) { return other.pid == one.parent; }))
        return one.pid;
    if (ended_) give_up("ended without a process with " + variable + "=" + value);
    if (Clock::now() >= until) give_up("has no process with " + variable + "=" + value);
    std::this_thread::sleep_for(milliseconds{2});
  }
}

bool Command::all_gone(milliseconds limit) {
  return eventually([&] { return pump(milliseconds{0}), processes().empty(); }, limit);
}

void Command::give_up(const std::string& what) const {
  std::string command;
  for (const auto& argument : argv_) command += argument + " ";
  throw std::runtime_error("`" + command + "` " + what + shown(out_, err_));
}

Ended run(std::vector<std::string> argv, milliseconds limit, CommandOptions options) {
  return Command(std::move(argv), std::move(options)).wait_exit(limit);
}

bool eventually(const std::function<bool()>& condition, milliseconds limit) {
  const auto until = Clock::now() + limit;
  while (!condition()) {
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(milliseconds{2});
  }
  return true;
}

std::map<std::string, std::string> environment_of(pid_t pid) {
  std::istringstream entries(slurp("/proc/" + std::to_string(pid) + "/environ"));
  std::map<std::string, std::string> result;
  for (std::string entry; std::getline(entries, entry, '\0');)
    if (const auto equals = entry.find('='); equals != std::string::npos)
      result[entry.substr(0, equals)] = entry.substr(equals + 1);
  return result;
}

TempFolder::TempFolder() {
  std::string name = std::filesystem::temp_directory_path() / "ddprun-test-XXXXXX";
  if (!mkdtemp(name.data())) throw std::system_error(errno, std::generic_category(), "mkdtemp");
  path_ = name;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TempFolder::write(const std::string& name, std::string_view text, bool executable) const {
  std::ofstream(path_ / name, std::ios::binary) << text;
  using std::filesystem::perms;
  if (executable) std::filesystem::permissions(path_ / name, perms::owner_all);
  return path_ / name;
}

std::string read_file(const std::filesystem::path& path) { return slurp(path); }

}  // namespace ddprun::test
