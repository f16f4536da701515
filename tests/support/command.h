// Runs a real command for an end-to-end test, with environment, output, signals and end; and leaves no process behind.
//
// No threads: output is read while a test waits, so a command that writes more than a pipe holds (1 MiB) continues only
// during the waits. Every wait has a limit, and a wait that fails throws with all output so far. All processes that the
// command starts are found by a mark in their environment, whatever their session or parent; the destructor kills and
// reaps them. If the test is killed, the command dies with the thread that made it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun::test {

// How a command ended. Printed, it shows the whole output, so that a failed CHECK says why.
struct Ended {
  int code = -1;   // -1 if a signal ended it
  int signal = 0;  // 0 if it exited
  std::string out = {}, err = {};
};
Ended exited(int code);
Ended killed_by(int signal);
bool operator==(const Ended& a, const Ended& b);  // compares only code and signal
std::ostream& operator<<(std::ostream& to, const Ended& ended);

struct Process {
  pid_t pid = 0;
  pid_t parent = 0;
  std::string command_line = {};
};
std::ostream& operator<<(std::ostream& to, const Process& process);

struct CommandOptions {
  // Added to ours; nullopt removes a variable. Without a HOME or XDG_STATE_HOME of its own a job leaves no record.
  std::map<std::string, std::optional<std::string>> env = {};
  std::filesystem::path cwd = {};  // empty: ours
  std::string input = {};          // content of stdin
  bool terminal = false;  // stdin, stdout and stderr are one new terminal, 80 x 24, whose output is all in out()
};

// A position in the output, to search only after it.
struct Mark {
  std::size_t out = 0, err = 0;
};

class Command {
 public:
  explicit Command(std::vector<std::string> argv, CommandOptions options = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& out();  // the output so far
  const std::string& err();
  Mark mark();

  // The match and its groups, of the first match in stdout, else in stderr. `pattern` is ECMAScript, '.' does not match
  // a newline.
  std::vector<std::string> wait_for_output(const std::string& pattern, std::chrono::milliseconds limit,
                                           Mark after = {});
  Ended wait_exit(std::chrono::milliseconds limit);
  bool ended();

  void kill(int signal) const;
  void type(std::string_view text) const;  // at the terminal; "\x03" is Ctrl-C

  // Live processes of this command, including itself, without zombies; `variable` selects those whose environment has
  // it with that value, as in processes("RANK", "1").
  std::vector<Process> processes() const;
  std::vector<Process> processes(const std::string& variable, const std::string& value) const;
  // Waits for a process selected that way that is not a child of another one.
  pid_t wait_for_process(const std::string& variable, const std::string& value, std::chrono::milliseconds limit);
  // True as soon as no process of this command is left.
  bool all_gone(std::chrono::milliseconds limit);

 private:
  void start(const CommandOptions& options);
  void pump(std::chrono::milliseconds wait);  // reads available data, waiting for the first byte or the end
  [[noreturn]] void give_up(const std::string& what) const;

  std::vector<std::string> argv_;
  std::string mark_;
  pid_t pid_ = -1;
  int pidfd_ = -1, out_fd_ = -1, err_fd_ = -1;
  std::string out_, err_;
  std::optional<Ended> ended_;
};

// Runs to the end.
Ended run(std::vector<std::string> argv, std::chrono::milliseconds limit, CommandOptions options = {});

// Polls every few milliseconds until `condition` returns true; false after the limit.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds limit);

// The environment with which a live process was started.
std::map<std::string, std::string> environment_of(pid_t pid);

// An empty folder that the destructor removes.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::filesystem::path write(const std::string& name, std::string_view text, bool executable = false) const;

 private:
  std::filesystem::path path_;
};

std::string read_file(const std::filesystem::path& path);  // empty if there is none

}  // namespace ddprun::test
