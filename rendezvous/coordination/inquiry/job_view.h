// What a job does, for whoever asks (`ddprun status`): what the coordinator knows of the whole job, and what each agent
// knows of its own workers. Values, with times relative to the moment at which they were taken.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/time.h"
#include "rendezvous/coordination/account/round_spent.h"
#include "rendezvous/coordination/account/standing.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::rendezvous {

enum class JobPhase {
  waiting,   // no round: for nodes, or until a back-off is over
  starting,  // a round is formed; not all of its workers have been started
  running,
  over,
};

enum class NodePlace {
  active,    // in the round
  done,      // in the round, and its workers have ended well
  ready,     // waits for a round that is not formed yet
  spare,     // waits while a round runs without it
  stopping,  // stops its workers, or ends
  excluded,  // left out, as workers failed there too often or a rule says so
  unfit,     // can be in no round for now: its health check
  lost,      // out of reach; its workers may live
};

struct NodeView {
  NodeId id = 0;
  std::string name = {};  // its host name
  std::string host = {};  // the address by which the others reach it
  NodePlace place = NodePlace::active;
  int group_rank = -1;  // in the round; -1: not in it
  int first_rank = 0;   // if it is in the round
  int workers = 1;
  std::string why = {};  // excluded, unfit, lost

  friend bool operator==(const NodeView&, const NodeView&) = default;
};

// A rank that makes the others wait (straggler.h).
struct SlowRank {
  int rank = 0;
  Activity phase = Activity::compute;  // or load
  int percent = 100;                   // of the median

  friend bool operator==(const SlowRank&, const SlowRank&) = default;
};

struct JobView {
  JobPhase phase = JobPhase::waiting;
  Duration since = {};  // in this phase
  int round = 0;        // the last one that was formed; 0: none yet
  int term = 0;         // of the coordinator
  NodeId coordinator = 0;
  int nodes_min = 1, nodes_max = 1;
  int world_size = 0;     // of the round; 0: there is none
  Duration backoff = {};  // left until a round may form
  int restarts_max = 0;   // of failures
  RestartCounts counts = {};
  std::vector<NodeView> nodes = {};       // of the round by group rank, then the others
  std::vector<std::string> awaited = {};  // nodes, while no round is formed
  std::vector<SlowRank> slow = {};
  JobAccount account = {};                 // without the round that runs
  std::optional<Duration> round_age = {};  // since that one was formed; empty: none runs

  friend bool operator==(const JobView&, const JobView&) = default;
};

struct RankView {
  int rank = 0;
  Activity activity = Activity::start;
  std::string collective = {};  // that it waits in
  std::optional<std::uint64_t> step = {};
  Duration age = {};                                // since it last reported anything
  std::optional<std::uint64_t> snapshot_step = {};  // the last one, and how long ago
  Duration snapshot_age = {};
  std::uint64_t snapshot_bytes = 0;               // that it has written for it; 0: not told
  int samples_per_second = 0;                     // 0: not reported
  std::optional<double> loss = {};                // the last training loss that it has reported
  std::optional<std::uint64_t> total_steps = {};  // the number of the step that is to be the last one
  std::uint64_t memory = 0;                       // resident bytes of the largest of its processes; 0: not known
  std::optional<double> processors = {};          // that it uses, with all that it has started
  bool silent = false;                            // it runs, and has never reported anything
  bool still = false;                             // it is silent, and nothing of it moves: `age` is how long
  Duration load = {}, compute = {}, wait = {};    // in this round; all zero: not reported
  int pid = 0;                                    // 0: it has ended
  bool stopped = false, paused = false;
  std::string held = {};  // Standing::held

  friend bool operator==(const RankView&, const RankView&) = default;
};

// The last line of what a worker has printed.
constexpr std::size_t kOutputLineMax = 200, kOutputLinesMax = 16;  // bytes; lines of a node that has more: one
constexpr int kSeveralRanks = -1;                                  // they write one file
struct OutputLine {
  int rank = kSeveralRanks;
  Duration age = {};
  std::string text = {};

  friend bool operator==(const OutputLine&, const OutputLine&) = default;
};

// By an agent, of its node.
struct NodeReport {
  int round = 0;
  int group_rank = 0;
  std::string name = {};
  std::uint64_t step_us = 0;  // the median of the last steps, in microseconds; 0: not known
  std::vector<RankView> ranks = {};
  std::optional<RoundSpent> spent = {};     // of the round so far
  std::uint64_t declined_fault = 0;         // Fault::id of the last one that it was to suffer and did not
  std::vector<OutputLine> last_lines = {};  // the newest first

  friend bool operator==(const NodeReport&, const NodeReport&) = default;
};

}  // namespace ddprun::rendezvous
