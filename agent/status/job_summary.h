// What a job does as a whole, from what its coordinator and its agents have told. Pure.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/status/job_condition.h"
#include "agent/status/job_outlook.h"
#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::agent {

// Why a round has ended that failed.
struct LastFailure {
  int round = 0;
  std::optional<int> rank = {};  // empty: no rank's, as of a lost node
  std::string node = {};         // its name; empty: not known
  std::string text = {};         // "rank 1 on n0 was killed by SIGKILL"
  Duration age = {};
};

// All that `ddprun status` is answered with.
struct StatusAnswer {
  std::string run_id = {}, program = {};
  std::string host = {};                           // of the agent that answers
  Duration run_time = {};                          // of this agent
  std::string problem = {};                        // why the coordinator has not answered; empty: it has
  std::optional<rendezvous::JobView> job = {};     // the coordinator's
  std::vector<rendezvous::NodeReport> nodes = {};  // that have answered, by group rank
  std::vector<std::string> silent = {};            // nodes of the round that have not
  std::optional<LastFailure> last_failure = {};    // of this start of the job
};

// Whom everybody waits for.
struct Awaited {
  std::vector<int> ranks = {};
  std::vector<std::string> nodes = {};
  std::string text = {};  // "rank 2 on node1 has computed for 3.1 s, after step 41; 7 ranks wait"; empty: nobody
};

// As status and metrics name them.
struct NamedPhase {
  rendezvous::JobPhase phase;
  const char* name;
};
constexpr std::array<NamedPhase, 4> kJobPhases = {{{rendezvous::JobPhase::waiting, "waiting"},
                                                   {rendezvous::JobPhase::starting, "starting"},
                                                   {rendezvous::JobPhase::running, "running"},
                                                   {rendezvous::JobPhase::over, "over"}}};
struct NamedPlace {
  rendezvous::NodePlace place;
  const char* name;
};
constexpr std::array<NamedPlace, 8> kNodePlaces = {{{rendezvous::NodePlace::active, "active"},
                                                    {rendezvous::NodePlace::done, "done"},
                                                    {rendezvous::NodePlace::ready, "ready"},
                                                    {rendezvous::NodePlace::spare, "spare"},
                                                    {rendezvous::NodePlace::stopping, "stopping"},
                                                    {rendezvous::NodePlace::excluded, "excluded"},
                                                    {rendezvous::NodePlace::unfit, "unfit"},
                                                    {rendezvous::NodePlace::lost, "lost"}}};
const char* name_of(rendezvous::JobPhase phase);
const char* name_of(rendezvous::NodePlace place);

struct RestartsByCause {
  const char* cause;
  int restarts;
};
std::array<RestartsByCause, 10> restarts_by_cause(const rendezvous::RestartCounts& counts);

// A rank that has done nothing new for so long while others wait for it holds them up.
constexpr std::chrono::seconds kHoldsUpAfter{1};
// A job of which a rank has reported nothing for so long, and for as many steps, stands still.
constexpr std::chrono::seconds kStillAfter{10};
constexpr int kStillAfterSteps = 10;

struct JobSummary {
  // start, runs, sleeps, train, save, evaluate, end: what most ranks do; empty: no rank is known
  std::string activity = {};
  JobCondition condition = {};
  std::optional<bool> is_silent = {};             // no rank has ever reported anything; empty: no rank is known
  std::optional<std::uint64_t> step = {};         // that all ranks which report steps have completed
  std::optional<double> steps_per_second = {};    // of the last steps; 0 once one is overdue
  std::optional<std::uint64_t> total_steps = {};  // the number of the step that is to be the last one
  std::optional<JobOutlook> outlook = {};
  std::optional<double> loss = {};                  // the mean of what the ranks have reported last
  std::optional<std::uint64_t> snapshot_step = {};  // the newest one
  std::optional<Duration> snapshot_age = {};
  std::optional<std::uint64_t> snapshot_bytes = {};  // that all ranks have written for it; empty: none has told it
  Awaited awaited = {};
  std::optional<rendezvous::TimeAccount> account = {};  // of the job's time; empty: the coordinator has not told it
};

// "runs" or "sleeps" for one that reports nothing, else the activity's name.
std::string activity_of(const rendezvous::RankView& rank);

JobSummary summary_of(const StatusAnswer& answer);

}  // namespace ddprun::agent
