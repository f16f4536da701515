// What ddprun itself tells people about a job: that it stops or restarts, what is left behind, and why it failed.
//
// A line each while the job runs, one screen at its end; nothing where all goes well. It knows no policy: the agent
// calls it when the matching thing happens.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agent/log_layout.h"
#include "agent/log_pipe.h"
#include "agent/worker_group.h"
#include "rendezvous/round.h"
#include "rendezvous/time.h"

namespace ddprun {

class Reporter {
 public:
  // All must outlive it.
  Reporter(LogPipes& pipes, const LogLayout& layout, const WorkerGroup& workers, std::string program);

  // Empty: people know where.
  void logs_are_in(const std::filesystem::path& folder);
  void ended_leftovers(int processes, const std::string& run_id);
  void preempted(int signal);
  void run_is_over(Duration allowed);
  void stopping(int signal, Duration grace);
  void waiting(const std::vector<int>& local_ranks, Duration left);
  void restarting(const Failure& failure, const std::string& reason);
  void still_there(const std::vector<pid_t>& processes, int round);
  // The one screen at the end; `outcome` has a cause.
  void failed(const Outcome& outcome);

 private:
  LogPipes& pipes_;
  const LogLayout& layout_;
  const WorkerGroup& workers_;
  std::string program_;
};

}  // namespace ddprun
