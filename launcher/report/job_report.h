// A job's story and its account of time, out of its events. Pure.
//
// Where several agents tell of a round, the first one's word on when it was formed and ended counts, and the lowest
// group rank's on what its workers did. Between two starts of a job nothing is counted.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/event_reader.h"
#include "rendezvous/coordination/account/time_account.h"

namespace ddprun::launcher {

struct ReportedRound {
  int start = 1;   // of the job, the first one is 1
  int number = 0;  // of the round
  int nodes = 0;
  std::chrono::milliseconds formed{}, ended{};  // since 1970
  // "crash", "lost-node" and so on (docs/failures.md); empty: no worker failed.
  std::string failure_class = {};
  std::optional<int> failed_rank = {};
  std::string reason = {};  // why it ended, or why the job did; empty: that is not known
  std::string host = {};    // of the worker that failed
  std::string story = {};   // "rank 1 on n0 was killed by SIGKILL"; empty: an older ddprun's events do not tell it
  // Until the next round was formed.
  rendezvous::TimeAccount spent = {};
  // What its end has cost: work that was lost, a hang, the stop, the wait, and the next round's start and restore.
  Duration lost = {};
};

// Of a PROGRESS event.
struct ReportedProgress {
  std::chrono::milliseconds at{};  // since 1970
  std::uint64_t step = 0;
  std::optional<double> steps_per_second = {}, loss = {};
  std::optional<std::uint64_t> total_steps = {};
};

// Of a STRAGGLER event, in words.
struct ReportedStraggler {
  std::chrono::milliseconds at{};  // since 1970
  std::string text = {};
};

// Of a worker that hung.
struct ReportedStacks {
  int rank = 0;
  std::string text = {};  // several lines
};

struct JobReport {
  std::string run_id;
  std::string command = {}, host = {};  // as typed, and the first node; empty: not known
  int ranks = 0;                        // of the last round
  int starts = 0;
  std::chrono::milliseconds began{}, last{};  // the first start's begin, and the last event
  bool ended = false;                         // false: it still runs, or its end was not written
  bool succeeded = false;
  bool stopped = false;    // by a user or a rule: then it did not fail
  std::string error = {};  // why it failed, or was stopped
  rendezvous::TimeAccount spent = {};
  std::vector<ReportedRound> rounds = {};
  std::vector<ReportedProgress> progress = {};
  std::vector<ReportedStraggler> stragglers = {};
  std::string failure = {};                         // as the last start has told it at its end; several lines
  std::vector<ReportedStacks> stacks = {};          // taken in its last round
  std::optional<std::uint64_t> snapshot_step = {};  // of the last snapshot that is known
  int snapshot_round = 0;                           // in which it was reported
  std::string snapshot_file = {};                   // of the job's description; empty: not known, or not there
};

// The run ids of these events, in the order in which they appear.
std::vector<std::string> jobs_of(const std::vector<LoggedEvent>& events);

// `events`: in the order of their times. Those of other jobs are left out. Empty: there is no round among them.
std::optional<JobReport> report_of(const std::vector<LoggedEvent>& events, const std::string& run_id);

}  // namespace ddprun::launcher
