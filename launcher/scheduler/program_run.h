// Runs a program to its end and takes its output, with a limit.
//
// Edge. The program gets an empty stdin or `input`, our environment, a session of its own; at the limit it is killed.
// What it has started and leaves running may keep its output open: that is not waited for.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace ddprun::launcher {

struct ProgramEnd {
  enum class How { exited, killed, not_found, too_late };
  How how = How::exited;
  int code = 0;          // exit code, or the signal that killed it
  std::string out = {};  // at most 64 MiB of each
  std::string err = {};
  bool succeeded() const { return how == How::exited && code == 0; }
};

// Of one that may take long: `tell` is called once, when it has run for that time.
struct SlowProgram {
  std::chrono::milliseconds after{0};
  std::function<void()> tell = {};
};

// The first word is looked for on PATH. Throws Error if it cannot be started for another reason than its absence.
ProgramEnd run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit,
                       const std::string& input = {}, const SlowProgram& slow = {});

// Replaces this process by the program. Throws Error where it cannot be started.
[[noreturn]] void become_program(const std::vector<std::string>& words);

}  // namespace ddprun::launcher
