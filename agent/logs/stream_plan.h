// Decides where each of a worker's streams goes: the console, a file, both, or nowhere.
//
// Pure. A stream passes through the agent only if it must: one that is only redirected is the worker's own file.
#pragma once
#include "agent/logs/log_options.h"

namespace ddprun::agent {

struct StreamPlan {
  enum class Way {
    inherited,   // our own stream
    own_file,    // the worker writes its file itself
    through_us,  // the members below say where it goes
    discarded    // /dev/null
  };
  Way way = Way::inherited;
  bool console = false;      // whole lines
  bool file = false;         // byte by byte
  bool as_it_comes = false;  // on the console: as if it were ours
  bool prefixed = false;     // on the console
  bool filtered = false;     // matching lines also go to the file that all ranks share

  friend bool operator==(const StreamPlan&, const StreamPlan&) = default;
};

// `stream` is kStdout or kStderr. stderr without a file always passes through us, as the report shows its last lines,
// even those of a rank that is not shown on the console; so does everything where a rule is about it, or it is kept.
// `files`: this worker has a folder; without one redirects are ignored.
StreamPlan plan_stream(const LogOptions& options, StreamBits stream, int local_rank, int rank, bool files);

// Whether any stream may need a file that stays.
bool keeps_logs(const LogOptions& options);
// "/dev/null" as the log folder.
bool refuses_files(const LogOptions& options);

}  // namespace ddprun::agent
