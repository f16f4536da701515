// Where a job's files lie: <log-dir>/<run id>/round-N/rank-R/{stdout.log,stderr.log,error.json}, global rank in the
// name, <log-dir>/latest pointing to the run; or torchrun's tree, <log-dir>/<run id>_<random>/attempt_<restarts>/<local
// rank>/. Nothing is erased by a later round or a later run: logs are appended to.
//
// Without logs to keep there are only error files, <temporary folder>/round-N-rank-R-error.json: a folder for each
// worker would be half of what its start costs. It goes away on success.
#pragma once
#include <filesystem>
#include <string>

#include "agent/logs/log_options.h"

namespace ddprun::agent {

// Which of the job's workers, of which round.
struct WorkerPlace {
  int round = 0, restarts = 0;
  int rank = 0, local_rank = 0;
};

// The names under the log folder: "<run id>" ("<run id>_XXXXXX" stands for torchrun's random ending), and below that
// "round-1/rank-3" or "attempt_0/3".
std::string run_folder(LogTree tree, const std::string& run_id);
std::filesystem::path worker_folder_in_run(LogTree tree, const WorkerPlace& worker);
std::filesystem::path error_file_in_run(const LogOptions& options, const WorkerPlace& worker);

class LogLayout {
 public:
  // Throws Error where a folder cannot be made.
  LogLayout(const LogOptions& options, const std::string& run_id);
  // Makes the folder. Empty where there are no files.
  std::filesystem::path worker_folder(const WorkerPlace& worker);
  // In a folder that is there once worker_folder() has been called. Empty where there are no files.
  std::filesystem::path error_file(const WorkerPlace& worker) const;
  // What all the ranks of a round share; it holds the workers' folders. Empty where there are no files.
  std::filesystem::path round_folder(const WorkerPlace& worker) const;
  bool keeps_logs() const { return keeps_logs_; }
  // Of logs that are kept in a folder that nobody named: people must be told. Else empty.
  std::filesystem::path unnamed_folder() const { return temporary_ && keeps_logs_ ? root_ : std::filesystem::path(); }
  // Removes the temporary folder without logs, unless a worker left an error file in it and `success` is false: then
  // people must be told of it.
  std::filesystem::path clean_up(bool success);

 private:
  void make_root();

  LogOptions options_;
  std::string run_;  // a folder's name
  bool keeps_files_, keeps_logs_;
  bool temporary_;
  std::filesystem::path root_;  // empty: not made yet
  std::filesystem::path temporary_folder_;
};

}  // namespace ddprun::agent
