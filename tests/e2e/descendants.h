// Descendants of every kind that tries, by habit or on purpose, to outlive its job; and how to find those that are
// left.
//
// The program `descendants` is a worker that starts the given kinds, waits until all are up and then acts as told. All
// of them have the job's folder, a unique name, as first argument, so that /proc shows which are left whatever they did
// to their environment, session, parent, threads or descriptors.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace ddprun::test {

// A process, or the threads left of one whose main thread has ended. Zombies do not count.
struct Descendant {
  pid_t pid = 0;
  std::vector<std::string> words = {};  // of its command line
};

// Plain child; ignoring every signal but SIGKILL and SIGALRM; in its own session; forked twice, so that its parent is
// gone; forked twice, in its own session and ignoring signals; stopped; with an empty environment; forking and exiting
// every 200 us, so that its pid changes each time (while the folder exists, and 3,000 times at most); adopting orphans
// as ddprun does, with one orphan; with all descriptors closed; with its main thread ended; the worker's sibling
// (CLONE_PARENT).
inline const std::vector<std::string> kAllKinds = {"plain",     "deaf",    "session",  "double-forked",
                                                   "daemon",    "stopped", "bare",     "pid-changer",
                                                   "subreaper", "closed",  "headless", "sibling"};

// All with `folder` in their command line: workers, descendants, and the ddprun that starts them.
std::vector<Descendant> processes_of(const std::string& folder);

// The worker's arguments: its folder, the kinds (comma-separated), and what to do when all are up: "wait", "deaf" (wait
// and ignore all signals that can be ignored), "exit:N", "fail-once" (in round 1; later rounds print what they found of
// earlier ones, and succeed), "rank-0-leaves" (the others wait for the file `go` in the folder).
std::vector<std::string> worker_words(const std::string& folder, const std::vector<std::string>& kinds,
                                      const std::string& then);

// A descendant's name in its command line, and in its folder once it is up: ROUND.RANK.KIND.
constexpr const char* kDescendantWord = "descendant";

}  // namespace ddprun::test
