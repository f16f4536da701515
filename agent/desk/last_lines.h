// What the workers of this node have printed last, from the ends of their streams. Pure.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/process/output_file.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/inquiry/job_view.h"

namespace ddprun::agent {

// The last line with text, fit for a terminal, at most rendezvous::kOutputLineMax bytes; empty: there is none. Of a
// progress bar what follows the last "\r". Another line without its end may be half of one, and counts only if it is
// all there is.
std::string last_line(std::string_view end);
// The same without lines of ddprun's own, which has its stderr in the file, too.
std::string last_line_of_workers(std::string_view end);

// Of a stream of which it is known what was written.
struct OutputEnd {
  bool is_stdout = true;
  Duration age = {};                // of the last bytes
  std::string bytes = {};           // the last ones; empty: none yet
  std::optional<FileId> file = {};  // empty: it passes through us
};
struct WorkerOutput {
  int rank = 0;
  std::vector<OutputEnd> ends = {};
};

// The newest first. A worker whose stdout is not known has none: what it printed last may be there. Workers whose
// newest line is in one file have one. A file that was last written before this job, `run_time` ago, has another one's
// lines.
std::vector<rendezvous::OutputLine> last_lines(const std::vector<WorkerOutput>& workers, Duration run_time);

}  // namespace ddprun::agent
