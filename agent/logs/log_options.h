// The options for the workers' output, as a plain struct with argued defaults.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agent/logs/kept_output.h"
#include "agent/logs/output_monitor.h"
#include "agent/logs/rank_selection.h"

namespace ddprun::agent {

enum class LogTree {
  ddprun,   // <log-dir>/<run id>/round-N/rank-R/, global rank, and <log-dir>/latest
  torchrun  // <log-dir>/<run id>_<random>/attempt_<restarts>/<local rank>/
};

struct LogOptions {
  // Empty: no log files, unless redirects or tee ask for them: then in a fresh temporary folder that stays.
  // "/dev/null": no files at all, as in torchrun.
  std::string log_dir = {};
  LogTree tree = LogTree::ddprun;
  StreamSpec redirects = {};   // to files only
  StreamSpec tee = {};         // to files and, each line with its prefix, to the console; wins over redirects
  RankSet console_ranks = {};  // only these appear on the console
  // Lines of tee'd streams that contain any of these are copied to filtered_stdout.log and filtered_stderr.log.
  std::vector<std::string> stdout_filters = {}, stderr_filters = {};
  std::string prefix = "[${role_name}${local_rank}]:";  // line_prefix.h lists what it may contain
  // The size limit of a log file; a full one becomes stdout.log.1, of which `size_keep` stay. 0, the default: no limit,
  // as a missing part of a log is noticed only when it is needed.
  std::uint64_t size_max = 0;
  int size_keep = 3;
  bool colour = true;  // of prefixes, and only on a terminal; false if NO_COLOR is set (https://no-color.org)
  std::string role = "default";
  std::string host = {};
  std::shared_ptr<KeptOutput> kept = {};        // is told of all workers; null: no output is kept here
  bool keeps_output = false;                    // and has what passes through us, as does all that goes to no file
  std::shared_ptr<OutputMonitor> monitor = {};  // gets all lines; null: no rule or metric is about them
};

}  // namespace ddprun::agent
