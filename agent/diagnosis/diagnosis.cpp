#include "agent/diagnosis/diagnosis.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include "agent/diagnosis/last_words.h"
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
  const std::string memory = out_of_memory(clues.memory_before, clues.memory_after);
  if (by_sigkill(clues.status) && !memory.empty()) return "memory ran out: " + memory;
  if (std::string words = meaning_of_lines(clues.status, clues.last_lines); !words.empty()) return words;
  if (!memory.empty()) return "perhaps memory ran out in one of its processes: " + memory;
  if (clues.status.signal == SIGKILL && counted(clues.memory_before) && counted(clues.memory_after))
    return "from outside, by a person or a scheduler: the kernel counted no kill for lack of memory";
  return hint(clues.status);
}

std::string in_words(const ExpiredTimer& timer) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::max(0.0, std::chrono::duration<double>(timer.granted).count()));
  const std::string words = "its timer '" + timer.scope + "' ran out after " + seconds;
  return timer.signal > 0 ? words + "; as it had asked, it was sent " + signal_name(timer.signal) : words;
}

}  // namespace ddprun::agent
