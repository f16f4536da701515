#include "agent/diagnosis/last_lines.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <optional>
#include <string_view>
#include <utility>

#include "agent/diagnosis/error_file.h"
#include "agent/diagnosis/traceback_hold.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::agent {

using rendezvous::FailureClass;

namespace {

constexpr int kNotRunnable = 126, kNotFound = 127;  // exit codes of shells, and 127 of the dynamic loader

// The part of `line` between `before` and `after` (empty: to the line's end).
std::optional<std::string> between(std::string_view line, std::string_view before, std::string_view after) {
  const auto start = line.find(before);
  if (start == std::string_view::npos) return {};
  line.remove_prefix(start + before.size());
  const auto end = after.empty() ? line.size() : line.find(after);
  if (end == std::string_view::npos || end == 0) return {};
  return std::string(line.substr(0, end));
}

struct Known {
  std::string_view before, after;  // around the name
  std::string_view text_before, text_after;
  FailureClass kind = FailureClass::start;
};

constexpr std::string_view kNoLibrary =
    " is not found: install it, or put its folder into LD_LIBRARY_PATH; ldd shows what else is missing";
constexpr std::string_view kNoModule = "the module ";
constexpr std::string_view kNoCommand = " is not found: install it, or check PATH";

constexpr std::array kTable = {
    // The dynamic loader, before main (exit code 127); the same from Python's import of a compiled module.
    Known{"error while loading shared libraries: ", ": cannot open shared object file", "the shared library ",
          kNoLibrary},
    Known{"ImportError: ", ": cannot open shared object file", "the shared library ", kNoLibrary},
    Known{"OSError: ", ": cannot open shared object file", "the shared library ", kNoLibrary},
    Known{"error while loading shared libraries: ", ":", "the shared library ",
          " cannot be loaded: damaged, or built for another machine"},
    Known{"undefined symbol: ", "", "the symbol ",
          " is in none of the loaded libraries: two versions are mixed; rebuild, or check LD_LIBRARY_PATH"},
    Known{": version `", "' not found",
          "it was built for a newer system: ", " is not in this machine's libraries; build it here, or in a container"},
    // Python.
    Known{"No module named '", "'", kNoModule, {}},
    Known{"No module named ", ";", kNoModule, {}},  // "a.__main__; 'a' is a package and cannot be directly executed"
    Known{"No module named ", "", kNoModule, {}},
    Known{"can't open file '", "'", "Python cannot find the file ", ": check the path, and the working folder"},
    Known{"OutOfMemoryError: ", ".", "the GPU's memory ran out: ", "; a smaller batch, or fewer ranks on this GPU",
          FailureClass::out_of_memory},
    // Shells and env.
    Known{"env: '", "\\r': No such file or directory",
          "its first line ends in a carriage return, as Windows writes it, so ",
          " is not found: remove the carriage returns (dos2unix)"},
    Known{"env: \xe2\x80\x98", "\\r\xe2\x80\x99: No such file or directory",
          "its first line ends in a carriage return, as Windows writes it, so ",
          " is not found: remove the carriage returns (dos2unix)"},
    Known{"env: \xe2\x80\x98", "\xe2\x80\x99: No such file or directory", "the command ", kNoCommand},
    Known{"env: '", "': No such file or directory", "the command ", kNoCommand},
};

// A known line without a name in it.
struct Fixed {
  std::string_view part, message;
  FailureClass kind = FailureClass::error;
};
constexpr std::string_view kGpuIsFull =
    "the GPU's memory ran out: CUDA out of memory; a smaller batch, or fewer ranks on this GPU";
constexpr std::string_view kEndOfInput = "EOFError: EOF when reading a line", kDebugger = "bdb.BdbQuit";
constexpr std::array kFixed = {
    // LibTorch's allocator, from Python and C++; an allocation of CUDA's own, which is not retried.
    Fixed{"CUDA out of memory", kGpuIsFull, FailureClass::out_of_memory},
    Fixed{"CUDA error: out of memory", kGpuIsFull, FailureClass::out_of_memory},
    Fixed{"No space left on device", "a disk is full, or a folder's quota used up (/dev/shm counts too)"},
    Fixed{"std::bad_alloc", "memory ran out: an allocation failed (std::bad_alloc); is there a limit (ulimit -v)?",
          FailureClass::out_of_memory},
    Fixed{"MemoryError", "memory ran out: Python could not allocate any (MemoryError); is there a limit (ulimit -v)?",
          FailureClass::out_of_memory},
    Fixed{"Too many open files", "too many files are open (ulimit -n)"},
    Fixed{kDebugger,
          "it stopped at a breakpoint and nobody can answer: only rank 0 has ddprun's input, if that is a terminal",
          FailureClass::start},
    Fixed{kEndOfInput,
          "it asks a question and nobody can answer: only rank 0 has ddprun's input, the others read /dev/null",
          FailureClass::start},
    Fixed{"Address already in use", "another process has the port that it wants to listen on", FailureClass::start},
};

struct LineMeaning {
  std::string text = {};  // empty: not known
  FailureClass kind = FailureClass::error;
};

std::string missing_module(const std::string& module, const PythonHere& python) {
  const std::string who = python.ran.empty() ? "this Python" : python.ran;
  const std::string missing = std::string(kNoModule) + module + " is not found by " + who;
  const std::string other = python.other_with ? python.other_with(module) : "";
  if (other.empty()) return missing + ": install it into the environment of this interpreter, or check PYTHONPATH";
  return missing + ", but " + other + " has it: activate its environment, or set PYTHON_EXEC=" + other;
}

// Of Python's argparse, about the argument by which launchers before torchrun told the local rank. Empty: another line.
std::string local_rank_message(std::string_view line) {
  const auto option_after = [&](std::string_view complaint) -> std::string {
    const auto options = between(line, complaint, "");
    for (const std::string_view name : {"--local_rank", "--local-rank"})
      if (options && options->find(name) != options->npos) return std::string(name);
    return {};
  };
  const auto add = [](std::string_view name) {
    return "put '" + std::string(name) + "=${local_rank}' after the program's name";
  };
  if (const std::string name = option_after("error: the following arguments are required: "); !name.empty())
    return "it expects its local rank as an argument: " + add(name);
  const std::string unknown = option_after("error: unrecognized arguments: ");
  if (unknown.empty()) return {};
  return "it does not know " + unknown + ": leave it out, as LOCAL_RANK is in the environment, or " +
         add(unknown == "--local_rank" ? "--local-rank" : "--local_rank");
}

LineMeaning known_message(std::string_view line, const PythonHere& python) {
  if (std::string text = local_rank_message(line); !text.empty()) return {std::move(text)};
  for (const Fixed& fixed : kFixed)
    if (line.find(fixed.part) != std::string_view::npos) return {std::string(fixed.message), fixed.kind};
  for (const Known& known : kTable)
    if (const auto name = between(line, known.before, known.after)) {
      if (known.text_before == kNoModule) return {missing_module(*name, python), known.kind};
      return {std::string(known.text_before) + *name + std::string(known.text_after), known.kind};
    }
  return {};
}

// "sh: 1: foo: not found", "bash: line 1: foo: command not found", "x.sh: ./foo: Permission denied"
std::string shell_message(int code, std::string_view line) {
  const auto end = code == kNotRunnable ? line.rfind(": Permission denied") : line.rfind("not found");
  if (end == std::string_view::npos) return {};
  std::string_view name = line.substr(0, end);
  if (code == kNotFound) name = name.substr(0, name.rfind(": "));
  if (const auto colon = name.rfind(": "); colon != std::string_view::npos) name.remove_prefix(colon + 2);
  if (name.empty()) return {};
  return code == kNotFound ? "the command " + std::string(name) + std::string(kNoCommand)
                           : std::string(name) + " has no run permission: chmod +x " + std::string(name);
}

// std::terminate prints it if a std::thread that nobody joined is destroyed, as exit() does with static objects.
constexpr std::string_view kNoException = "terminate called without an active exception";
constexpr std::string_view kThreadStillRan =
    "it ended while one of its threads still ran; with gloo, a barrier before destroy_process_group lets the thread "
    "end first";

// The exception that ended a C++ program; its message is on the next line.
std::string uncaught(const std::vector<std::string>& lines, std::size_t i) {
  if (lines[i].ends_with(kNoException)) return std::string(kThreadStillRan);
  const auto type = between(lines[i], "terminate called after throwing an instance of '", "'");
  if (!type) return {};
  const auto what = i + 1 < lines.size() ? between(lines[i + 1], "what():  ", "") : std::nullopt;
  return "it did not catch its exception " + *type + (what ? ": " + *what : "");
}

// "[W1128 23:09:22.399 ProcessGroupNCCL.cpp:1553] Warning: ...", as it is written when a process ends.
bool is_log_of_pytorch(std::string_view line) {
  return line.size() > 2 && line[0] == '[' && std::string_view("IWE").find(line[1]) != line.npos &&
         std::isdigit(static_cast<unsigned char>(line[2]));
}

// Of its standard library, which raises what others have caused.
bool is_of_python_itself(std::string_view file) {
  const auto lib = file.find("/lib/python3");
  return (lib != file.npos && file.find("-packages/", lib) == file.npos) || file.starts_with("<frozen ");
}

// Of Python, at the begin of the last line.
constexpr std::array<std::string_view, 11> kCannotBegin = {"ModuleNotFoundError: ",
                                                           "ImportError: ",
                                                           "SyntaxError: ",
                                                           "IndentationError: ",
                                                           "TabError: ",
                                                           "FileNotFoundError: ",
                                                           "NotADirectoryError: ",
                                                           "IsADirectoryError: ",
                                                           "PermissionError: [Errno 13]",
                                                           kEndOfInput,
                                                           kDebugger};
// Of PyTorch: the lines after it tell each difference.
constexpr std::string_view kForeignState = "RuntimeError: Error(s) in loading state_dict for ";

constexpr std::array<std::string_view, 9> kOfMeetings = {
    "CONNECT",       "TIMEOUT",       "TIMED OUT",   "ADDRESS ALREADY IN USE", "RENDEZVOUS", "TCPSTORE",
    "PROCESS GROUP", "PROCESS_GROUP", "PROCESSGROUP"};
constexpr std::array<std::string_view, 2> kVariablesOfMeetings = {"MASTER_", "WORLD_SIZE"};

bool has_word(std::string_view line, std::string_view word) {
  const auto is_letter = [&](std::size_t at) {
    return at < line.size() && std::isalpha(static_cast<unsigned char>(line[at]));
  };
  for (std::size_t at = line.find(word); at != line.npos; at = line.find(word, at + 1))
    if (!(at > 0 && is_letter(at - 1)) && !is_letter(at + word.size())) return true;
  return false;
}

bool speaks_of_meeting(std::string_view line) {
  const std::string upper = upper_case(line);
  const auto in_line = [&](std::string_view words) { return line.find(words) != line.npos; };
  return std::any_of(kOfMeetings.begin(), kOfMeetings.end(),
                     [&](std::string_view words) { return upper.find(words) != upper.npos; }) ||
         std::any_of(kVariablesOfMeetings.begin(), kVariablesOfMeetings.end(), in_line) || has_word(line, "RANK") ||
         has_word(upper, "STORE");
}

LineMeaning meaning(const rendezvous::ExitStatus& status, const std::vector<std::string>& lines,
                    const PythonHere& python = {}) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (LineMeaning known = known_message(lines[i], python); !known.text.empty()) return known;
    if (status.signal == SIGABRT)
      if (std::string text = uncaught(lines, i); !text.empty()) return {text};
    if (status.code == kNotRunnable || status.code == kNotFound)
      if (std::string text = shell_message(status.code, lines[i]); !text.empty()) return {text, FailureClass::start};
  }
  return {};
}

}  // namespace

std::string last_line_to_compare(const std::vector<std::string>& last_lines) {
  constexpr std::size_t kCutMark = 4;  // " ..."
  for (std::size_t i = last_lines.size(); i-- > 0;) {
    const std::string line(without_rank(printable_line(last_lines[i], rendezvous::kLastLineMax - kCutMark)));
    if (line.find_first_not_of(' ') != line.npos) return line;
  }
  return {};
}

bool cannot_begin(const rendezvous::ExitStatus& status, const std::vector<std::string>& lines) {
  if (status.code == 0) return false;
  const std::string last = last_line_to_compare(lines);
  const auto begins = [&](std::string_view with) { return last.starts_with(with); };
  if (std::any_of(kCannotBegin.begin(), kCannotBegin.end(), begins)) return true;
  const auto foreign = [](const std::string& line) { return without_rank(line).starts_with(kForeignState); };
  if (std::any_of(lines.begin(), lines.end(), foreign)) return true;
  const auto known = [&](const Known& one) {
    return one.kind == FailureClass::start && between(last, one.before, one.after);
  };
  const bool by_shell =
      (status.code == kNotRunnable || status.code == kNotFound) && !shell_message(status.code, last).empty();
  return by_shell || std::any_of(kTable.begin(), kTable.end(), known);
}

bool is_about_meeting(const std::vector<std::string>& lines) {
  return std::any_of(lines.begin(), lines.end(), [](const std::string& ranked) {
    const std::string_view line = without_rank(ranked);
    const bool is_other =
        line.starts_with(' ') || line.starts_with("usage:") || line.find("destroy_process_group()") != line.npos;
    return !is_other && speaks_of_meeting(line);
  });
}

std::string place_of_traceback(const std::vector<std::string>& lines) {
  std::string innermost;
  for (std::size_t i = lines.size(); i-- > 0;) {
    const auto file = between(without_rank(lines[i]), "  File \"", "\"");
    const auto number = between(lines[i], "\", line ", "");
    if (!file || !number) continue;
    std::string place =
        file->substr(file->rfind('/') + 1) + ":" + number->substr(0, number->find_first_not_of("0123456789"));
    if (!is_of_python_itself(*file)) return place;
    if (innermost.empty()) innermost = std::move(place);
  }
  return innermost;
}

std::string error_of_traceback(const std::vector<std::string>& lines) {
  std::string error;
  bool wanted = false;
  for (const std::string& ranked : lines) {
    const std::string_view line = without_rank(ranked);
    if (begins_fatal_error(line)) return {};
    if (line.starts_with("  File \"")) {
      wanted = true;
    } else if (wanted && !line.empty() && line[0] != ' ') {
      error = line;
      wanted = false;
    } else if (!wanted && !line.empty() && !is_log_of_pytorch(line)) {
      error.clear();  // the program went on, or the error has several lines
    }
  }
  return wanted ? "" : error;
}

std::string meaning_of_lines(const rendezvous::ExitStatus& status, const std::vector<std::string>& lines,
                             const PythonHere& python) {
  return meaning(status, lines, python).text;
}

std::optional<FailureClass> class_of_lines(const rendezvous::ExitStatus& status, bool progressed,
                                           const std::vector<std::string>& lines) {
  const LineMeaning found = meaning(status, lines);
  const bool may_be_start = !progressed || status.code == kNotRunnable || status.code == kNotFound;
  if (found.kind == FailureClass::error || (found.kind == FailureClass::start && !may_be_start)) return {};
  return found.kind;
}

}  // namespace ddprun::agent
