#include "agent/stacks/python_frames.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kPySpyThread = "Thread ", kPystackThread = "Traceback for thread ";
constexpr std::string_view kPystackFile = "File \"", kPystackLine = ", line ", kPystackFunction = ", in ";

int line_number(std::string_view text) {
  int number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Thread 22324 (idle): "MainThread"
PythonThread py_spy_thread(std::string_view line) {
  line.remove_prefix(kPySpyThread.size());
  PythonThread thread{std::string(line.substr(0, line.find(' ')))};
  const auto open = line.find('"'), close = line.rfind('"');
  if (open != line.npos && close > open) thread.name = line.substr(open + 1, close - open - 1);
  return thread;
}

//     evaluate (/home/user/train.py:40)
std::optional<PythonFrame> py_spy_frame(std::string_view line) {
  const auto begin = line.find_first_not_of(' '), open = line.rfind(" ("), colon = line.rfind(':');
  if (begin == 0 || begin == line.npos || open == line.npos || !line.ends_with(')') || open < begin) return {};
  const auto file = open + 2;
  if (colon == line.npos || colon < file)
    return PythonFrame{std::string(line.substr(begin, open - begin)),
                       std::string(line.substr(file, line.size() - 1 - file))};
  return PythonFrame{std::string(line.substr(begin, open - begin)), std::string(line.substr(file, colon - file)),
                     line_number(line.substr(colon + 1))};
}

//     (Python) File "/home/user/train.py", line 40, in evaluate
std::optional<PythonFrame> pystack_frame(std::string_view line) {
  const auto file = line.find(kPystackFile), number = line.rfind(kPystackLine), function = line.rfind(kPystackFunction);
  if (file == line.npos || number == line.npos || function == line.npos) return {};
  const auto begin = file + kPystackFile.size();
  if (number <= begin || function < number) return {};
  return PythonFrame{std::string(line.substr(function + kPystackFunction.size())),
                     std::string(line.substr(begin, number - 1 - begin)),
                     line_number(line.substr(number + kPystackLine.size()))};
}

}  // namespace

std::vector<PythonThread> parse_python_stacks(const std::string& text) {
  std::vector<PythonThread> threads;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with(kPySpyThread)) {
      threads.push_back(py_spy_thread(line));
    } else if (line.starts_with(kPystackThread)) {
      const auto id = line.substr(kPystackThread.size());
      threads.push_back({id.substr(0, id.find(' '))});
    } else if (threads.empty()) {
      continue;
    } else if (const auto outer_first = pystack_frame(line)) {
      threads.back().frames.insert(threads.back().frames.begin(), *outer_first);
    } else if (const auto frame = py_spy_frame(line)) {
      threads.back().frames.push_back(*frame);
    }
  }
  return threads;
}

bool is_library(const PythonFrame& frame) {
  const std::string_view file = frame.file;
  if (file.starts_with('<')) return true;  // "<frozen runpy>", "<string>"
  const auto has = [&](std::string_view part) { return file.find(part) != file.npos; };
  for (const char* const ours : {"/ddprun/channel.py", "/ddprun/_pytorch.py", "/ddprun/_trainers.py",
                                 "/worker_channel.py"})  // between script and PyTorch
    if (file.ends_with(ours)) return true;
  if (has("-packages/")) return has("-packages/torch/") || has("-packages/numpy/");
  return has("/lib/python3") || has("/lib64/python3") || file.starts_with("torch/");
}

std::string in_words(const PythonFrame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  const std::string place = frame.line > 0 ? file + ":" + std::to_string(frame.line) : file;
  return frame.function + " (" + place + ")";
}

}  // namespace ddprun::agent
