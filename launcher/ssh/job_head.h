// The head of a job on several hosts: the ddprun that the user started. Edge: it connects job_progress.h with the
// hosts, the console and the user's signals.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "agent/logs/job_end.h"
#include "launcher/ssh/message.h"

namespace ddprun::launcher {

struct JobHeadOptions {
  HostJobOrder order = {};  // of all hosts
  int least = 1;            // of them, to start
  std::string version = {};
  std::string own_name = {};  // of this machine, which is reached without ssh
  std::set<int> ending_signals = {};
  std::string event_file = {};  // gets the events of all hosts; empty: none
  // The agents' further options, by what the hosts that take part have said; a string: why they cannot meet.
  std::function<std::variant<std::vector<std::string>, std::string>(const std::map<int, HostReady>&)> start_options =
      {};
};

// Runs the job to its end. `keeper_fd` is from continue_under_keeper(). Throws Error.
agent::JobEnd run_job_head(JobHeadOptions options, int keeper_fd, bool prints_end);

}  // namespace ddprun::launcher
