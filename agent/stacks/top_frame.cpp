#include "agent/stacks/top_frame.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/stacks/python_frames.h"

namespace ddprun::agent {
namespace {

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(), [&](auto beginning) { return text.starts_with(beginning); });
}

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

// Of the C and C++ libraries, the dynamic loader and the kernel: what everything waits in. In a program that is linked
// statically they are told by name.
bool is_system(const StackFrame& frame) {
  if (starts_with_any(file_name(frame.module),
                      {"libc.so", "libc-", "libpthread", "ld-linux", "libstdc++", "libc++", "libgcc_s", "libm.so",
                       "librt", "libgomp", "libomp", "libiomp", "[vdso"}))
    return true;
  return frame.function.empty() ||  // tells nothing
         starts_with_any(frame.function,
                         {"std::", "__gnu_cxx::", "operator new", "operator delete", "__", "pthread_"}) ||
         is_one_of(frame.function,
                   {"_start", "start_thread", "clone", "clone3", "syscall", "nanosleep", "clock_nanosleep", "usleep",
                    "sleep", "poll", "ppoll", "epoll_wait", "epoll_pwait", "select", "read", "write", "recv", "send"});
}

bool is_upper(char letter) { return letter >= 'A' && letter <= 'Z'; }

// "ncclAllReduce" and "cudaMalloc", but not "cudaless" or a user's "nccl_test".
bool is_call_of(std::string_view function, std::string_view library) {
  return function.starts_with(library) && function.size() > library.size() && is_upper(function[library.size()]);
}

// The machinery between a collective or an interpreter and the user's own functions.
bool is_framework(const StackFrame& frame) {
  return starts_with_any(frame.function,
                         {"at::", "c10::", "c10d::", "torch::", "gloo::", "pybind11::", "MPI_", "PMPI_"}) ||
         is_call_of(frame.function, "nccl") || is_call_of(frame.function, "cuda") ||
         starts_with_any(file_name(frame.module),
                         {"python", "libpython", "libtorch", "libc10", "libcuda", "libnccl", "libmpi"});
}

std::string_view after_prefix(std::string_view text, std::string_view beginning) {
  return text.starts_with(beginning) ? text.substr(beginning.size()) : text;
}

// Groups, what they return and what calls them; not c10d's stores, its Reducer or its loggers.
bool is_collective_of_c10d(std::string_view function) {
  function = after_prefix(after_prefix(function, "c10d::"), "(anonymous namespace)::");
  const std::string_view first = function.substr(0, function.find("::"));
  if (starts_with_any(first, {"ProcessGroup", "Backend", "ops"}) || first.find("Work") != first.npos) return true;
  return first == function && !first.empty() && !is_upper(first[0]);
}

bool is_collective(const std::string& function) {
  if (function.starts_with("c10d::")) return is_collective_of_c10d(function);
  return starts_with_any(function, {"gloo::", "ProcessGroup", "MPI_", "PMPI_"}) || is_call_of(function, "nccl");
}

// The longer ones first: "reduce_scatter" is no "reduce".
constexpr std::array<std::string_view, 12> kCollectives{"allreduce", "reducescatter", "allgather", "alltoall",
                                                        "broadcast", "barrier",       "gather",    "scatter",
                                                        "sendrecv",  "reduce",        "recv",      "send"};

std::string name_of_collective(const std::string& function) {
  std::string letters;
  for (const char letter : function)
    if (letter != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  const auto* const name = std::find_if(kCollectives.begin(), kCollectives.end(),
                                        [&](auto one) { return letters.find(one) != letters.npos; });
  return name == kCollectives.end() ? "" : std::string(*name);
}

const ThreadStack* main_thread(const ProcessStacks& stacks) {
  const auto main =
      std::find_if(stacks.threads.begin(), stacks.threads.end(), [](const auto& one) { return one.main; });
  return main == stacks.threads.end() ? nullptr : &*main;
}

// The name that the frames of a collective tell, the outermost one's: an allreduce receives. Empty: none tells.
std::string collective_in(const std::vector<StackFrame>& frames) {
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
    if (is_collective(frame->function) && !frame->function.starts_with("gloo::transport::"))
      if (std::string name = name_of_collective(frame->function); !name.empty()) return name;
  return "";
}

bool has_collective(const std::vector<StackFrame>& frames) {
  return std::any_of(frames.begin(), frames.end(), [](const auto& frame) { return is_collective(frame.function); });
}

// PyTorch's gloo runs a collective in a thread of its own, for which the main thread waits.
std::string collective_of_others(const ProcessStacks& stacks) {
  for (const ThreadStack& thread : stacks.threads)
    if (!thread.main)
      if (std::string name = collective_in(thread.frames); !name.empty()) return name;
  return "";
}

TopFrame native_top(const std::vector<StackFrame>& frames) {
  const auto not_system = std::find_if_not(frames.begin(), frames.end(), is_system);
  const auto own = std::find_if(not_system, frames.end(),
                                [](const auto& frame) { return !is_system(frame) && !is_framework(frame); });
  const auto named =
      std::find_if(frames.begin(), frames.end(), [](const auto& frame) { return !frame.function.empty(); });
  for (const auto& candidate : {own, not_system, named})
    if (candidate != frames.end()) return {candidate->function, candidate->module};
  return {"an unknown function", frames.front().module};
}

const PythonThread* main_thread(const std::vector<PythonThread>& threads, pid_t pid) {
  const auto is_main = [&](const PythonThread& one) {
    return !one.frames.empty() && (one.name == "MainThread" || one.id == std::to_string(pid));
  };
  const auto main = std::find_if(threads.begin(), threads.end(), is_main);
  return main == threads.end() ? nullptr : &*main;
}

TopFrame python_top(const std::vector<PythonFrame>& frames) {
  const auto own = std::find_if_not(frames.begin(), frames.end(), is_library);
  const PythonFrame& frame = own == frames.end() ? frames.front() : *own;
  return {in_words(frame), frame.file};
}

// The function of torch.distributed that the user's innermost function called; empty: none.
std::string collective_in(const std::vector<PythonFrame>& frames) {
  std::string name;
  for (const PythonFrame& frame : frames) {
    if (!is_library(frame)) break;
    if (frame.file.find("torch/distributed/distributed_c10d") == frame.file.npos) continue;
    if (std::string outer = name_of_collective(frame.function); !outer.empty()) name = std::move(outer);
  }
  return name;
}

}  // namespace

std::optional<TopFrame> top_frame(const ProcessStacks& stacks) {
  const std::vector<PythonThread> python_threads = parse_python_stacks(stacks.python);
  const PythonThread* const python = main_thread(python_threads, stacks.pid);
  const ThreadStack* const native = main_thread(stacks);
  const bool has_native = native && !native->frames.empty();
  if (!python && !has_native) return {};
  TopFrame top = python ? python_top(python->frames) : native_top(native->frames);
  const std::string by_python = python ? collective_in(python->frames) : "";
  top.in_collective = !by_python.empty() || (has_native && has_collective(native->frames));
  if (!top.in_collective) return top;
  for (const std::string& name :
       {by_python, has_native ? collective_in(native->frames) : "", collective_of_others(stacks)})
    if (top.collective.empty()) top.collective = name;
  if (top.collective.empty()) top.collective = "collective";
  return top;
}

std::vector<std::string> functions_of_main_thread(const ProcessStacks& stacks) {
  std::vector<std::string> out;
  const std::vector<PythonThread> threads = parse_python_stacks(stacks.python);
  if (const PythonThread* const python = main_thread(threads, stacks.pid)) {
    for (const PythonFrame& frame : python->frames) out.push_back(frame.file + ":" + frame.function);
    return out;
  }
  const ThreadStack* const native = main_thread(stacks);
  for (const StackFrame& frame : native ? native->frames : std::vector<StackFrame>())
    if (!is_system(frame) && !starts_with_any(file_name(frame.module), {"python", "libpython"}))
      out.push_back(frame.function);
  return out;
}

std::string in_words(const TopFrame& frame) {
  if (!frame.in_collective) return "in " + frame.function;
  const bool is_vowel = std::string_view("aeiou").find(frame.collective.substr(0, 1)) != std::string_view::npos;
  return std::string(is_vowel ? "in an " : "in a ") + frame.collective + ", called by " + frame.function;
}

}  // namespace ddprun::agent
