// What a person can ask for about the workers' output, as a plain struct with argued defaults.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "agent/logs/rank_selection.h"

namespace ddprun::agent {

enum class LogTree {
  ddprun,   // <log-dir>/<run id>/round-N/rank-R/, global rank, and <log-dir>/latest
  torchrun  // <log-dir>/<run id>_<random>/attempt_<restarts>/<local rank>/
};

struct LogOptions {
  // Empty: no log files, unless redirects or tee ask for them: then in a fresh temporary folder that stays.
  // "/dev/null": no files at all, as torchrun has it.
  std::string log_dir = {};
  LogTree tree = LogTree::ddprun;
  StreamSpec redirects = {};   // into files alone
  StreamSpec tee = {};         // into files and, each line with its prefix, onto the console; wins over redirects
  RankSet console_ranks = {};  // only these appear on the console
  // Lines of tee'd streams that contain any of these are copied to filtered_stdout.log and filtered_stderr.log.
  std::vector<std::string> stdout_filters = {}, stderr_filters = {};
  std::string prefix = "[${role_name}${local_rank}]:";  // line_prefix.h names what may stand in it
  // The most that one log file may hold; a full one becomes stdout.log.1, of which `size_keep` stay. 0: no limit, as a
  // log cut off by a default would be missed only when it is needed.
  std::uint64_t size_max = 0;
  int size_keep = 3;
  bool colour = true;  // of prefixes, and only on a terminal; false where NO_COLOR is set (https://no-color.org)
  std::string role = "default";
  std::string host = {};
};

}  // namespace ddprun::agent
