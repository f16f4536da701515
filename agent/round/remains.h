// What a worker leaves that ends before the processes it has started, as a shell does that gets SIGTERM: they are the
// rank then, and have the time that it would have had.
//
// Orphans of a worker become our children, as we are a child subreaper; their own children follow when they end. Only
// unreaped children of ours are signalled, so no recycled pid can be hit.
#pragma once
#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

// By which signal a worker was asked to end, and who has got it besides.
struct EndRequest {
  int signal = 0;  // 0: it was not
  std::set<pid_t> inside = {};
  pid_t group = 0;  // 0: none
};

// The rank in a process's environment, if it belongs to the job of this cookie: children inherit it.
std::optional<int> rank_by_environment(pid_t pid, const std::string& cookie);

class Remains {
 public:
  // `child`: of ours, perhaps dead.
  void take(pid_t child) { asked_.try_emplace(child, 0); }
  // Who uses the rank's channel; 0, unknown, changes nothing.
  void note_owner(pid_t pid) { owner_ = pid != 0 ? pid : owner_; }
  // Reaps those that have ended, after `before` of each. True: there were some, whose children are ours now.
  bool reap(const std::function<void(pid_t)>& before);
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
