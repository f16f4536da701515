// What a worker leaves that ends before the processes it has started, as a shell does that gets SIGTERM: they are the
// rank then, and have the time that it would have had.
//
// Orphans of a worker become our children, as we are a child subreaper; their own children follow when they end. Only
// unreaped children of ours are signalled, so no recycled pid can be hit.
#pragma once
#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordination/round.h"

namespace ddprun::agent {

// How a worker's processes are known: by its session, or by what it has in its environment and they inherit.
struct WorkerMark {
  pid_t session = 0;                      // the worker's pid; 0: it has none of its own
  std::vector<std::string> entries = {};  // "NAME=value": all of them
};

// By which signal a worker was asked to end, and who has got it besides.
struct EndRequest {
  int signal = 0;  // 0: it was not
  std::set<pid_t> inside = {};
  pid_t group = 0;  // 0: none
};

class Remains {
 public:
  // Takes those of `children` that live and bear the mark. `owner`: who uses the rank's channel; 0: nobody, or unknown.
  // Returns the new ones.
  std::vector<pid_t> take(const std::vector<pid_t>& children, const WorkerMark& mark, pid_t owner);
  // Reaps those that have ended, and returns them.
  std::vector<pid_t> reap();
  // The signal to those that have not got it.
  void ask(const EndRequest& request);
  void signal(int signal) const;

  bool empty() const { return asked_.empty(); }
  bool holds(pid_t pid) const { return asked_.contains(pid); }
  std::vector<pid_t> pids() const;
  // How the channel's owner has ended.
  const std::optional<rendezvous::ExitStatus>& outcome() const { return outcome_; }

 private:
  std::map<pid_t, int> asked_;  // by pid: the last signal; 0: none
  pid_t owner_ = 0;
  std::optional<rendezvous::ExitStatus> outcome_;
};

}  // namespace ddprun::agent
