// How the workers of this node are, for those who ask: their figures, and their stacks.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/channel/channel_page.h"
#include "agent/hang/use_meter.h"
#include "agent/stacks/take_stacks.h"
#include "rendezvous/coordination/inquiry/job_view.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class NodeView {
 public:
  struct Hooks {
    std::function<const rendezvous::Seat*()> seat;                 // of the current round; null: there was none yet
    std::function<bool()> has_workers;                             // it has: else their ranks are left out
    std::function<void(rendezvous::NodeReport&)> complete;         // adds what others here know
    std::function<std::vector<rendezvous::Standing>()> standings;  // of the round's workers here, by a look now
    std::function<std::optional<Duration>()> recent_step;
    std::function<std::optional<pid_t>(int local_rank)> running;  // empty: it has ended
    std::function<Progress(int local_rank)> progress;
    std::function<std::optional<WorkerUse>(int local_rank)> use;
    std::function<void(std::vector<pid_t>, Duration, AsyncStacks::OnTaken)> take_stacks;
  };
  explicit NodeView(std::string host, Hooks hooks) : host_(std::move(host)), hooks_(std::move(hooks)) {}

  rendezvous::NodeReport report() const;
  bool has_rank_0() const;
  // Calls back with the stacks of all workers that run, now or later; cut to what all nodes may send. Without a round
  // it does not.
  void take_stacks(const std::function<void(std::string text)>& taken) const;

 private:
  rendezvous::RankView view_of(const rendezvous::Standing& standing, int local_rank) const;

  const std::string host_;
  const Hooks hooks_;
};

}  // namespace ddprun::agent
