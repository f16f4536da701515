#include "agent/diagnosis/diagnosis.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "agent/process/exit_status.h"

namespace ddprun::agent {
namespace {

// SIGKILL ended it, or the command of a shell or wrapper.
bool by_sigkill(const rendezvous::ExitStatus& status) {
  return status.signal == SIGKILL || status.code == 128 + SIGKILL;
}

bool counted(const OomCounts& counts) { return !counts.groups.empty(); }

}  // namespace

std::string meaning_of(const Clues& clues) {
  if (clues.timer) return in_words(*clues.timer);
  if (clues.status.start_error) return clues.why_not_started;
  if (clues.status.by_output) return clues.output_rule;
  if (clues.status.hung && !clues.hang.empty()) return clues.hang + "; a longer --hang-timeout lets it go on";
  const std::string memory = out_of_memory(clues.memory_before, clues.memory_after);
  if (by_sigkill(clues.status) && !memory.empty()) return "memory ran out: " + memory;
  if (std::string text = meaning_of_lines(clues.status, clues.last_lines, clues.python); !text.empty()) return text;
  if (!memory.empty()) return "perhaps memory ran out in one of its processes: " + memory;
  if (clues.status.signal == SIGKILL && counted(clues.memory_before) && counted(clues.memory_after))
    return "the kernel counted no out-of-memory kill; most likely a person, a scheduler or another program sent it";
  return hint(clues.status);
}

rendezvous::FailureClass class_of(const Clues& clues, bool progressed) {
  if (clues.timer) return rendezvous::FailureClass::hang;
  if (clues.status.by_output) return rendezvous::FailureClass::error;
  if (by_sigkill(clues.status) && !out_of_memory(clues.memory_before, clues.memory_after).empty())
    return rendezvous::FailureClass::out_of_memory;
  const rendezvous::FailureClass by_status = rendezvous::class_of(clues.status, progressed);
  if (by_status == rendezvous::FailureClass::usage) return by_status;  // Python says so of a script that is not there
  if (!progressed && cannot_begin(clues.status, clues.last_lines)) return rendezvous::FailureClass::start;
  return class_of_lines(clues.status, progressed, clues.last_lines).value_or(by_status);
}

std::string in_words(const ExpiredTimer& timer) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::max(0.0, std::chrono::duration<double>(timer.granted).count()));
  const std::string text = "its timer '" + timer.scope + "' expired after " + seconds;
  return timer.signal > 0 ? text + "; as it had requested, it was sent " + signal_name(timer.signal) : text;
}

}  // namespace ddprun::agent
