// What is known of one job, by its agents and its record: once, and again and again.
#pragma once
#include <chrono>
#include <optional>
#include <string>

#include "launcher/jobs/job_record.h"
#include "launcher/jobs/job_words.h"
#include "launcher/running/job_view.h"
#include "launcher/running/live_job.h"
#include "launcher/running/status_watch.h"

namespace ddprun::launcher {

// Without a name the newest one. Throws JobRefused.
JobRecord record_named(const JobWords& words);
// Without a name the job that was started last. Throws JobRefused, UsageError, Error.
JobFacts status_of(const JobWords& words);

// One job's status, as long as it is there: once it has ended, what its record says; without one, what it said last.
class WatchedJob {
 public:
  explicit WatchedJob(const JobWords& words);
  // Its status now, with lines cut to that width. Throws Error once nothing has answered for a while.
  StatusLook look(std::size_t columns);

 private:
  void ask();
  void end();

  static constexpr int kFailuresMax = 10, kRecordLooks = 20;
  static constexpr std::chrono::milliseconds kRecordEvery{50};
  JobFacts facts_;
  std::optional<JobRecord> record_;
  std::optional<LiveJob> job_;
  bool is_first_ = true, has_gone_ = false;
  int failures_ = 0;
};

}  // namespace ddprun::launcher
