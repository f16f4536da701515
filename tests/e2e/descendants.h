// Descendants of every kind that tries, by habit or by malice, to outlive its job; and how to find what is left of
// them.
//
// The program `descendants` is a worker that makes the kinds asked for, waits until all are up and then does as told.
// All of them carry the job's folder, a unique name, as first argument, so that /proc tells who is left whatever else
// they did to their environment, session, parent, threads or descriptors.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::test {

// A process, or what runs on of one whose main thread has ended. Zombies are none.
struct Descendant {
  pid_t pid = 0;
  std::vector<std::string> words = {};  // of its command line
};

// Plain child; deaf to every signal but SIGKILL and SIGALRM; in a session of its own; twice forked, so that its parent
// is gone; twice forked, in a session and deaf; stopped; with an empty environment; one that forks and exits every 200
// us, so that its pid is another each time (as long as the folder is there, and 3,000 times at most); one that adopts
// orphans as ddprun does, with an orphan of its own; with all descriptors closed; one whose main thread has ended; one
// that is the worker's sibling (CLONE_PARENT).
inline const std::vector<std::string> kAllKinds = {"plain",     "deaf",    "session",  "double-forked",
                                                   "daemon",    "stopped", "bare",     "pid-changer",
                                                   "subreaper", "closed",  "headless", "sibling"};

// All that carry `folder` in their command line: workers, descendants, and a ddprun that was asked to start them.
std::vector<Descendant> processes_of(const std::string& folder);

// The words that follow the worker's program: its folder, the kinds (comma between), and what to do when all are up:
// "wait", "deaf" (wait, and ignore what can be ignored), "exit:N", "fail-once" (in round 1; later rounds say what they
// found of earlier ones, and end well), "rank-0-leaves" (the others wait for the file `go` in the folder).
std::vector<std::string> worker_words(const std::string& folder, const std::vector<std::string>& kinds,
                                      const std::string& then);

// How a descendant is named in its command line, and in its folder once it is up: ROUND.RANK.KIND.
constexpr const char* kDescendantWord = "descendant";

}  // namespace ddprun::test
