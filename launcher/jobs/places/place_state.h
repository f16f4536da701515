// What a scheduler says about a job that was given to it. Pure.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace ddprun::launcher {

struct PlaceState {
  enum class Phase {
    queued,     // or put back into the queue: requeues counts that
    running,    // or about to end
    succeeded,  //
    failed,     //
    preempted,  // it has saved and ended, and the scheduler does not start it again
    stopped,    // by a user, or because its time was over
    gone        // the scheduler does not know it (any more)
  };
  Phase phase = Phase::gone;
  std::string detail = {};  // one line: why it waits, what ended it; may be empty
  std::string where = {};   // the nodes' names as the scheduler writes them
  int requeues = 0;
  std::optional<int> exit_code = {};  // of ended jobs, as a shell would show it (137: SIGKILL); unknown: empty
};

// Of several jobs that were asked about at once.
struct PlaceAnswers {
  std::map<std::string, PlaceState> states = {};  // by the id or name that was asked for
  std::string problem = {};                       // a sentence: why there is no answer about the others
};

const char* text_of(PlaceState::Phase phase);  // "queued"
bool has_ended(PlaceState::Phase phase);       // no start is to come by itself

}  // namespace ddprun::launcher
