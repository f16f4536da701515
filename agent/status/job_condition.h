// How a job is, in one glance: the same sentence on the page, in status, in top and in reports. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::agent {

enum class Condition {
  waiting,
  starting,
  running,
  slowed,
  stands_still,
  paused,
  saving,
  evaluating,
  ending,
  ended,
  stopped,
  failed,
  unknown
};
// How much a user has to care.
enum class Level { good, busy, attention, bad, over };

struct NamedCondition {
  Condition condition;
  const char* name;
  Level level;
};
constexpr std::array<NamedCondition, 13> kConditions = {{{Condition::waiting, "waiting", Level::attention},
                                                         {Condition::starting, "starting", Level::busy},
                                                         {Condition::running, "running", Level::good},
                                                         {Condition::slowed, "slowed", Level::attention},
                                                         {Condition::stands_still, "stands still", Level::attention},
                                                         {Condition::paused, "paused", Level::busy},
                                                         {Condition::saving, "saving", Level::busy},
                                                         {Condition::evaluating, "evaluating", Level::busy},
                                                         {Condition::ending, "ending", Level::busy},
                                                         {Condition::ended, "ended", Level::over},
                                                         {Condition::stopped, "stopped", Level::over},
                                                         {Condition::failed, "failed", Level::bad},
                                                         {Condition::unknown, "unknown", Level::attention}}};
const char* name_of(Condition condition);
const char* name_of(Level level);
Level level_of(Condition condition);

struct JobCondition {
  Condition condition = Condition::unknown;
  std::optional<Duration> since = {};  // of what lasts: a save, a standstill
  std::string why = {};                // or for whom; empty: there is no more to say

  friend bool operator==(const JobCondition&, const JobCondition&) = default;
};
// "stands still for 4.7 s: ranks 0 and 1 wait for rank 2 (stopped)", "ended well after 3 h 12 min"
std::string in_words(const JobCondition& condition);

// A step is overdue once no rank has told anything for so long, and for so many steps. While their time is not known, a
// start of the work may take longer.
constexpr std::chrono::milliseconds kOverdueAfter{750};
constexpr int kOverdueAfterSteps = 3;
constexpr std::chrono::seconds kOverdueInFirstSteps{10};

struct StatusAnswer;  // job_summary.h
// Who sees only some of the ranks, as for metrics, does not take their wait for a standstill: another may be saving.
JobCondition condition_of(const StatusAnswer& seen);
// Of a job that has ended after this time. `cause`: the failure that has ended it, in words; empty: there was none.
JobCondition condition_of(const rendezvous::Outcome& outcome, Duration after, const std::string& cause);

// For how long no rank has got on although a step is due, also in a save or an evaluation; empty: they get on, or it is
// not known.
std::optional<Duration> without_step(const std::vector<rendezvous::NodeReport>& nodes);

// What is wrong with a rank, in few words: "stopped", "slow 2.4x", "holds up" (the others); empty: nothing.
std::string trouble_of(const rendezvous::RankView& rank, const std::vector<rendezvous::SlowRank>& slow, bool holds_up);

}  // namespace ddprun::agent
