#include "agent/stacks/process_stacks.h"

#include <cstdio>

#include "rendezvous/base/spelling.h"

namespace ddprun::agent {
namespace {

std::string hexadecimal(std::uint64_t number, int digits = 0) {
  char text[2 + 16 + 1];
  std::snprintf(text, sizeof text, "0x%0*llx", digits, static_cast<unsigned long long>(number));
  return text;
}

// "#3  0x00007f23d8e375d8 pthread_cond_wait (libc.so.6+0x865d8)"
std::string frame_line(std::size_t number, const StackFrame& frame) {
  std::string line = "  #" + std::to_string(number);
  line.resize(6, ' ');
  line += hexadecimal(frame.address, 16) + " " + (frame.function.empty() ? "??" : visible(frame.function));
  if (frame.module.empty()) return line;
  const std::string file = frame.module.substr(frame.module.rfind('/') + 1);
  return line + " (" + visible(file) + "+" + hexadecimal(frame.offset) + ")";
}

std::string thread_text(const ThreadStack& thread) {
  std::string text = "thread " + std::to_string(thread.tid) + " \"" + visible(thread.name) + "\"";
  if (thread.main) text += " (main)";
  text += ", state " + std::string(1, thread.state);
  if (!thread.wait_channel.empty()) text += " in " + visible(thread.wait_channel);
  text += '\n';
  for (std::size_t i = 0; i < thread.frames.size(); ++i) text += frame_line(i, thread.frames[i]) + "\n";
  if (!thread.missing.empty()) text += "  " + visible(thread.missing) + "\n";
  return text;
}

std::string pause_in_words(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f ms", std::chrono::duration<double, std::milli>(duration).count());
  return text;
}

}  // namespace

std::string to_text(const ProcessStacks& stacks) {
  std::string text = "process " + std::to_string(stacks.pid);
  if (stacks.longest_pause > Duration::zero())
    text += ", its threads stopped for at most " + pause_in_words(stacks.longest_pause) + " each";
  text += '\n';
  if (!stacks.missing.empty()) text += visible(stacks.missing) + "\n";
  for (const ThreadStack& thread : stacks.threads) text += "\n" + thread_text(thread);
  if (!stacks.python.empty()) text += "\nPython:\n" + visible_lines(stacks.python);
  if (!text.ends_with('\n')) text += '\n';
  if (!stacks.python_missing.empty()) text += "\nno Python frames: " + visible(stacks.python_missing) + "\n";
  return text;
}

}  // namespace ddprun::agent
