// Explains a worker's end from all that is known about it: one sentence, the most certain explanation first.
//
// Pure: evidence.h collects the clues.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "agent/channel/timer_table.h"
#include "agent/diagnosis/last_lines.h"
#include "agent/diagnosis/oom_count.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

struct Clues {
  rendezvous::ExitStatus status;
  std::string why_not_started = {};        // if it could not be started
  std::optional<ExpiredTimer> timer = {};  // of its own, expired before the end
  std::string output_rule = {};            // that gave it up, in words
  std::string hang = {};                   // what it did when it was found to hang, and who waited for it
  OomCounts memory_before = {}, memory_after = {};
  std::vector<std::string> last_lines = {};  // of its stderr
  PythonHere python = {};                    // for meaning_of()
};

// Without a final stop; empty if the exit status needs no explanation.
std::string meaning_of(const Clues& clues);

// The class of its failure; the status alone decides where nothing more is known.
rendezvous::FailureClass class_of(const Clues& clues, bool progressed);

// "its timer 'step' expired after 3.0 s; as it had requested, it was sent SIGKILL"
std::string in_words(const ExpiredTimer& timer);

}  // namespace ddprun::agent
