// Config → what the hosts of --hosts get to run. Pure.
#pragma once
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "agent/process/worker_env.h"
#include "launcher/config/config.h"
#include "launcher/plan/plan.h"
#include "launcher/ssh/job_head.h"
#include "launcher/ssh/message.h"

namespace ddprun::launcher {

struct HeadFacts {
  std::string ddprun;  // the path of this program
  std::string folder;
  agent::Environment environment;
  std::string run_id;       // if the job has no name
  std::string token;        // if it has no token; empty: none is wanted
  std::string config_text;  // of --config
  std::string version;      // of this program
  std::string own_name;     // this machine's
};
HostJobOrder host_job_order(const Config& config, const HeadFacts& facts);

// Where the hosts meet, by what they have said; or a sentence: they cannot.
std::variant<std::vector<std::string>, std::string> start_options(const Config& config,
                                                                  const std::map<int, HostReady>& ready);

// A job on several hosts, decided once from its Config.
struct HostPlan {
  JobHeadOptions head = {};
  std::string sync = {},
              sync_named = {};  // this folder is copied to the hosts first, as the user named it; empty: none
  RecordFacts record = {};
};
// Throws UsageError.
HostPlan plan_on_hosts(const Config& config, const HeadFacts& facts);

// --dry-run: each host's ranks and the command that reaches it.
std::string hosts_dry_run(const Config& config, const HostJobOrder& order, const std::string& own_name);

}  // namespace ddprun::launcher
