// The interface between ddprun and its module that unwinds stacks, libddprun_stacks.so: one function, found by name,
// and two classes.
//
// Only the module links libdw, which most runs never need and a machine may lack. Both sides contain their own
// libstdc++, so no exception and nothing that owns memory crosses; each side destroys what it made.
#pragma once
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace ddprun::agent {

// A thread as it was when it was stopped.
struct UnwindThread {
  pid_t tid = 0;
  const std::uint64_t* registers = nullptr;  // by DWARF number
  std::size_t register_count = 0;
  std::uint64_t pc = 0;
  std::uint64_t stack_begin = 0;  // the address of stack's first byte
  const std::byte* stack = nullptr;
  std::size_t stack_size = 0;
};

// The pointers hold during the call only.
struct UnwoundFrame {
  std::uint64_t address = 0, offset = 0;
  const char* symbol = nullptr;  // as in the symbol table; nullptr: unknown
  const char* module = nullptr;  // nullptr: none
};

class UnwindSink {
 public:
  virtual ~UnwindSink() = default;
  // The frames of threads[thread], the innermost first.
  virtual void frame(std::size_t thread, const UnwoundFrame& frame) = 0;
  // There are none, or none after those.
  virtual void failed(std::size_t thread, const char* why) = 0;
};

// What it learns about a program's or library's symbols it keeps for the next process with the same file.
//
// Not thread-safe.
class Unwinder {
 public:
  virtual ~Unwinder() = default;
  // Reads the files that the process has mapped and, where a stack is longer than its copy, the process itself.
  // nullptr: done; else why not.
  virtual const char* unwind(pid_t pid, const UnwindThread* threads, std::size_t count, UnwindSink& sink) = 0;
};

// nullptr: out of memory.
using MakeUnwinder = Unwinder*();
inline constexpr const char* kMakeUnwinderName = "ddprun_make_unwinder";

}  // namespace ddprun::agent
