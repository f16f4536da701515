#include "agent/process/wrappers.h"

#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>

#include "agent/process/children.h"
#include "agent/process/other_process.h"
#include "agent/process/process_table.h"

namespace ddprun::agent {
namespace {

bool executes_one_of(pid_t pid, const std::set<std::string>& names) {
  std::error_code unreadable;
  const auto file = std::filesystem::read_symlink(table_entry(pid) / "exe", unreadable);
  return !unreadable && names.contains(file.filename().string());
}

bool starts_another(pid_t pid) {
  static const std::set<std::string> wrappers{"ash",     "bash",    "busybox",  "dash",   "env",    "fish",    "gdb",
                                              "ksh",     "ltrace",  "nice",     "nohup",  "nsys",   "numactl", "perf",
                                              "setarch", "setsid",  "sh",       "strace", "stdbuf", "taskset", "tcsh",
                                              "time",    "timeout", "valgrind", "zsh"};
  return executes_one_of(pid, wrappers);
}

std::string input_of(const std::filesystem::path& entry) {
  std::error_code unreadable;
  return std::filesystem::read_symlink(entry / "fd" / "0", unreadable).string();
}

// As its parent has not reaped it, the pid may be another's by now: that one has another parent.
bool ask(pid_t pid, pid_t parent, int signal) {
  const OtherProcess process(pid);
  const auto now = task_stat(pid);
  if (!now || now->parent != parent || !process.signal(signal)) return false;
  process.signal(SIGCONT);
  return true;
}

}  // namespace

std::vector<BelowWrapper> below_wrapper(pid_t pid) {
  std::vector<BelowWrapper> out;
  if (!starts_another(pid)) return out;
  for (const pid_t child : children_of(pid)) {
    if (ends_with_its_input(child)) continue;
    const std::vector<BelowWrapper> deeper = below_wrapper(child);
    out.push_back({child, pid, !deeper.empty() && passes_signals_on(child)});
    out.insert(out.end(), deeper.begin(), deeper.end());
  }
  return out;
}

std::set<pid_t> signal_below(const std::vector<BelowWrapper>& all, int signal, pid_t group) {
  std::set<pid_t> asked;
  for (const BelowWrapper& one : all) {
    if (group != 0 && getpgid(one.pid) == group) continue;
    if (ask(one.pid, one.parent, one.passes_on ? SIGCONT : signal) && !one.passes_on) asked.insert(one.pid);
  }
  return asked;
}

bool passes_signals_on(pid_t pid) { return executes_one_of(pid, {"timeout"}); }

// Our own input may be rank 0's, and goes on.
bool ends_with_its_input(pid_t pid) {
  static const std::set<std::string> filters{"cat",      "cut", "gawk",       "grep", "gzip", "head", "logger", "mawk",
                                             "multilog", "pv",  "rotatelogs", "sed",  "tail", "tee",  "tr",     "zstd"};
  const std::string input = input_of(table_entry(pid));
  return input.starts_with("pipe:") && input != input_of("/proc/self") && executes_one_of(pid, filters);
}

}  // namespace ddprun::agent
