// Keeps a job's account of time for the coordinator: between rounds by its own clock, within them by what agents tell.
//
// A value: it owns no clock. Times never go back. At any time the account adds up to what has passed since the start,
// and what earlier starts of the job took.
#pragma once
#include <limits>
#include <optional>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/round_spent.h"
#include "rendezvous/coordination/account/time_account.h"

namespace ddprun::rendezvous {

class JobClock {
 public:
  // `earlier`: what was accounted before `now`.
  JobClock(const JobAccount& earlier, TimePoint now) : closed_(earlier), closed_until_(now) {}

  void round_formed(int round, TimePoint now);
  void workers_run(TimePoint now);  // all of the round have been exec'd
  // By the agent of this group rank; of a round that is not closed yet. The lowest rank's counts.
  void measured(int round, int group_rank, const RoundSpent& spent);
  void round_ended(RoundEnd how, TimePoint now);
  void all_stopped(TimePoint now);  // no worker of the round that has ended may live any more

  // Without the round that runs.
  JobAccount closed(TimePoint now) const;
  // With it. `running`: what an agent has measured of it by now; empty: what is known here.
  TimeAccount account(TimePoint now, const std::optional<RoundSpent>& running = {}) const;
  // When the round that runs was formed; empty: none runs.
  std::optional<TimePoint> round_since() const;
  // Grows when a round is closed, and when the last one's times become known after the job's end.
  int changes() const { return changes_; }

 private:
  struct OpenRound {
    int number = 0;
    TimePoint formed;
    std::optional<TimePoint> running = {}, ended = {}, stopped = {};
    RoundEnd how = RoundEnd::running;
    int teller = std::numeric_limits<int>::max();  // a group rank
    std::optional<RoundSpent> spent = {};
  };
  static RoundSpent spent_of(const OpenRound& round, TimePoint until);

  JobAccount closed_;
  TimePoint closed_until_;
  std::optional<OpenRound> round_;
  int changes_ = 0;
};

}  // namespace ddprun::rendezvous
