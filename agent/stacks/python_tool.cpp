#include "agent/stacks/python_tool.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "agent/process/files/file_content.h"
#include "agent/process/process_table.h"
#include "agent/stacks/memory_map.h"
#include "rendezvous/base/child_process.h"
#include "rendezvous/base/fd.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kOutputMax = std::size_t{1} << 20;  // bytes; more is cut off
constexpr int kAttempts = 3;  // without stopping the process, its stack may change while it is read

std::string environment_value(const std::vector<std::string>& environment, const std::string& name) {
  for (const std::string& entry : environment)
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  return "";
}

std::vector<std::string> folders_of(const std::string& path) {
  std::vector<std::string> folders = split(path, ':');
  std::erase(folders, "");
  return folders;
}

bool is_program(const std::string& file) { return access(file.c_str(), X_OK) == 0 && !fs::is_directory(file); }

std::string find_in(const std::vector<std::string>& folders, const std::string& name) {
  for (const std::string& folder : folders)
    if (const std::string file = folder + "/" + name; is_program(file)) return file;
  return "";
}

// It is ours or root's, and nobody else may change it.
bool is_safe(const std::string& path) {
  struct stat of {};
  if (stat(path.c_str(), &of) != 0 || (of.st_uid != 0 && of.st_uid != geteuid())) return false;
  return !(of.st_mode & S_IWOTH) && (!(of.st_mode & S_IWGRP) || of.st_uid == 0 || of.st_gid == getegid());
}

// As the shell that started it found it: a virtual environment's python is a link, which /proc/<pid>/exe resolves.
std::string folder_of_first_word(pid_t pid) {
  const fs::path entry = table_entry(pid);
  const std::string line = file_content(entry / "cmdline");
  const std::string word = line.substr(0, line.find('\0'));
  std::error_code error;
  const std::string path = environment_value(split(file_content(entry / "environ"), '\0'), "PATH");
  fs::path file;
  if (word.find('/') != word.npos)
    file = fs::read_symlink(entry / "cwd", error) / word;
  else if (!word.empty())
    file = find_in(folders_of(path), word);
  // A process may give itself any name.
  return !file.empty() && fs::equivalent(file, entry / "exe", error) ? file.parent_path().string() : "";
}

bool has_libpython(pid_t pid) {
  const std::vector<Mapping> map = memory_map(pid);
  return std::any_of(map.begin(), map.end(),
                     [](const Mapping& one) { return one.path.find("/libpython") != one.path.npos; });
}

PythonTool tool_at(const std::string& file, const std::string& searched) {
  if (fs::path(file).filename().string().find("pystack") != std::string::npos)
    return {{file, "remote", "--no-block"}, searched};
  return {{file, "dump", "--nonblocking", "--full-filenames", "--pid"}, searched};
}

std::vector<char*> pointers_to(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& one : strings) out.push_back(const_cast<char*>(one.c_str()));
  out.push_back(nullptr);
  return out;
}

// A pipe's end to read, which does not block, and what came out of it.
struct ToolOutput {
  Fd fd;
  std::string text = {};

  // Until nothing is there. At the end of the pipe the descriptor is closed.
  void drain() {
    std::array<char, 65536> bytes;
    ssize_t count = 0;
    while (fd && (count = read(fd.get(), bytes.data(), bytes.size())) > 0)
      text.append(bytes.data(), std::min(static_cast<std::size_t>(count), kOutputMax - text.size()));
    if (count == 0) fd.reset();
  }
};

struct OutputPipe {
  ToolOutput from;
  Fd to;
};

std::optional<OutputPipe> output_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return {};
  OutputPipe made{{Fd(ends[0])}, Fd(ends[1])};
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return made;
}

// Those of ours that a program would have beside its standard streams: what ddprun was itself started with. It opens
// its own with close-on-exec. glibc can close all at once since 2.34, and ddprun runs with older ones.
std::vector<int> inheritable_descriptors() {
  std::vector<int> out;
  std::error_code gone;
  for (fs::directory_iterator entry("/proc/self/fd", gone), end; !gone && entry != end; entry.increment(gone)) {
    const int fd = static_cast<int>(std::strtol(entry->path().filename().c_str(), nullptr, 10));
    const int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;
    if (flags >= 0 && !(flags & FD_CLOEXEC)) out.push_back(fd);
  }
  return out;
}

// Frees what posix_spawn() is told.
struct SpawnSettings {
  SpawnSettings() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

class ToolRun {
 public:
  // errno of what failed; 0: it runs.
  int start(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
    auto out = output_pipe(), err = output_pipe();
    if (!out || !err) return errno;
    SpawnSettings settings;
    posix_spawn_file_actions_addopen(&settings.files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&settings.files, out->to.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&settings.files, err->to.get(), STDERR_FILENO);
    for (const int fd : inheritable_descriptors()) posix_spawn_file_actions_addclose(&settings.files, fd);
    pid_t pid = 0;
    const int error = posix_spawn(&pid, command[0].c_str(), &settings.files, &settings.attributes,
                                  pointers_to(command).data(), pointers_to(environment).data());
    if (error) return error;
    pid_ = pid;
    fd_ = child_descriptor(pid);
    if (!fd_ && errno != ESRCH) {  // else it has ended, and was reaped
      const int lacking = errno;
      end();
      return lacking;
    }
    out_ = std::move(out->from);
    err_ = std::move(err->from);
    return 0;
  }

  // False: it was killed at the deadline. Reaps it, unless somebody else did.
  bool wait(TimePoint deadline) {
    bool in_time = true;
    while (is_running()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      in_time = left > 0;
      if (!in_time) break;
      std::array<pollfd, 3> all{{{fd_.get(), POLLIN, 0}, {out_.fd.get(), POLLIN, 0}, {err_.fd.get(), POLLIN, 0}}};
      poll(all.data(), all.size(), static_cast<int>(std::min<std::int64_t>(left, 1'000)));
      drain();
    }
    if (!in_time) end();
    drain();
    return in_time;
  }

  const std::string& out() const { return out_.text; }
  const std::string& err() const { return err_.text; }

 private:
  bool is_running() {
    if (!fd_) return false;
    siginfo_t info{};
    return wait_child(child(), info, WEXITED | WNOHANG) == 0 && info.si_pid == 0;
  }

  void end() {
    if (!signal_child(child(), SIGKILL)) return;
    siginfo_t info{};
    wait_child(child(), info, WEXITED);
  }

  void drain() {
    out_.drain();
    err_.drain();
  }

  ChildProcess child() const { return {pid_, fd_.get()}; }

  pid_t pid_ = 0;
  Fd fd_;
  ToolOutput out_, err_;
};

// py-spy says first what failed, and then where in its own code; pystack the other way round.
std::string first_printed_line(const std::string& text) {
  const std::size_t begin = text.find_first_not_of('\n');
  return begin == text.npos ? "" : visible(text.substr(begin, text.find('\n', begin) - begin));
}

bool is_forbidden(const std::string& error) {
  return error.find("ermission") != error.npos || error.find("not permitted") != error.npos;
}

std::string why_nothing(const std::string& program, const std::string& error) {
  const std::string what = program + " printed no frames" + (error.empty() ? "" : ": " + first_printed_line(error));
  if (!is_forbidden(error)) return what;
  return what +
         ". It is ddprun's child and not the process's ancestor: with kernel.yama.ptrace_scope=1 the process has "
         "to allow it, prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)";
}

bool has_frames(const std::string& text) {
  return text.find("Thread ") != text.npos || text.find("File \"") != text.npos;
}

}  // namespace

PythonProcess python_process(pid_t pid) {
  std::error_code error;
  const fs::path executable = fs::read_symlink(table_entry(pid) / "exe", error);
  if (error || (!executable.filename().string().starts_with("python") && !has_libpython(pid))) return {};
  PythonProcess process{executable, {}};
  for (const std::string& folder : {folder_of_first_word(pid), executable.parent_path().string()})
    if (!folder.empty() &&
        std::find(process.bin_folders.begin(), process.bin_folders.end(), folder) == process.bin_folders.end())
      process.bin_folders.push_back(folder);
  return process;
}

PythonTool find_python_tool(const PythonProcess& process, const std::vector<std::string>& environment) {
  const std::string chosen = environment_value(environment, "PYSPY_BIN"), path = environment_value(environment, "PATH");
  std::string searched = chosen.empty() ? "PYSPY_BIN is not set" : "PYSPY_BIN=" + chosen;
  if (!chosen.empty() && is_program(chosen)) return tool_at(chosen, searched);
  std::vector<std::string> folders = process.bin_folders;
  for (const std::string& folder : folders_of(path))
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) folders.push_back(folder);
  searched += folders.empty() ? "" : "; " + listed(folders, "and");
  for (const char* name : {"py-spy", "pystack"})
    for (const std::string& folder : folders) {
      const std::string file = folder + "/" + name;
      if (!is_program(file)) continue;
      if (is_safe(file) && is_safe(folder)) return tool_at(file, searched);
      searched += "; " + file + " is not run, as another user may change it";
    }
  return {{}, searched};
}

ToolResult run_python_tool(const std::vector<std::string>& command, pid_t pid,
                           const std::vector<std::string>& environment, TimePoint deadline) {
  std::vector<std::string> words = command;
  words.push_back(std::to_string(pid));
  std::string missing;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    ToolRun run;
    if (const int error = run.start(words, environment))
      return {"", "cannot start " + command[0] + ": " + std::generic_category().message(error)};
    if (!run.wait(deadline)) return {"", command[0] + " did not end in time"};
    if (has_frames(run.out())) return {run.out()};
    missing = why_nothing(command[0], run.err());
    if (is_forbidden(run.err())) break;
  }
  return {"", missing};
}

}  // namespace ddprun::agent
