#include "agent/logs/stream_plan.h"

namespace ddprun::agent {
namespace {

using Way = StreamPlan::Way;

// --log-dir alone keeps both streams in files, besides what the console shows; in torchrun's tree only -r and -t create
// files.
bool keeps_everything(const LogOptions& options) {
  return options.tree == LogTree::ddprun && !options.log_dir.empty() && !options.redirects.any() && !options.tee.any();
}

StreamPlan into_file(const LogOptions& options) {
  if (options.size_max == 0 && !options.monitor) return {.way = Way::own_file};
  return {.way = Way::through_us, .file = true};  // only the writer can enforce a size limit
}

StreamPlan plain(const LogOptions& options, StreamBits stream, bool shown) {
  if (stream == kStderr || options.monitor) return {.way = Way::through_us, .console = shown};
  if (options.keeps_output) return {.way = Way::through_us, .console = shown, .as_it_comes = true};
  return {.way = shown ? Way::inherited : Way::discarded};
}

}  // namespace

StreamPlan plan_stream(const LogOptions& options, StreamBits stream, int local_rank, int rank, bool files) {
  const bool shown = options.console_ranks.holds(local_rank, rank);
  const bool tee = options.tee.of(local_rank, rank) & stream;
  const bool redirected = options.redirects.of(local_rank, rank) & stream;
  const bool kept = files && keeps_everything(options);
  if (!tee && !kept) return redirected && files ? into_file(options) : plain(options, stream, shown);
  if (!shown) return files ? into_file(options) : plain(options, stream, false);
  const auto& filters = stream == kStdout ? options.stdout_filters : options.stderr_filters;
  return {
      .way = Way::through_us, .console = true, .file = files, .prefixed = tee, .filtered = files && !filters.empty()};
}

bool keeps_logs(const LogOptions& options) {
  return !refuses_files(options) && (!options.log_dir.empty() || options.redirects.any() || options.tee.any());
}

bool refuses_files(const LogOptions& options) { return options.log_dir == "/dev/null"; }

}  // namespace ddprun::agent
