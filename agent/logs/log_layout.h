// The paths of a job's files: <log-dir>/<run id>/round-N/rank-R/{stdout.log,stderr.log,error.json}, with global ranks,
// and <log-dir>/latest links to the run; or torchrun's tree, <log-dir>/<run id>_<random>/attempt_<restarts>/<local
// rank>/. Later rounds and runs erase nothing: logs are appended to.
//
// Without logs to keep there are only error files, <temporary folder>/round-N-rank-R-error.json, as a folder for each
// worker would be half of its start-up cost. The folder is removed on success.
#pragma once
#include <filesystem>
#include <string>

#include "agent/logs/log_options.h"

namespace ddprun::agent {

// Identifies a worker of a round.
struct WorkerPlace {
  int round = 0, restarts = 0;
  int rank = 0, local_rank = 0;
};

// Names relative to the log folder: "<run id>" ("<run id>_XXXXXX" stands for torchrun's random suffix), and below it
// "round-1/rank-3" or "attempt_0/3".
std::string run_folder(LogTree tree, const std::string& run_id);
std::filesystem::path worker_folder_in_run(LogTree tree, const WorkerPlace& worker);
std::filesystem::path error_file_in_run(const LogOptions& options, const WorkerPlace& worker);

// With those above it. Throws Error.
void make_log_folder(const std::filesystem::path& folder);

class LogLayout {
 public:
  // Throws Error if a folder cannot be made.
  LogLayout(const LogOptions& options, const std::string& run_id);
  // Makes the folder for error files, if there are no logs. Throws Error.
  void make_error_folder();
  // Where logs are kept: the folder, which may not exist.
  std::filesystem::path log_folder(const WorkerPlace& worker) const;
  // Creates the folder. Empty if the job has no files.
  std::filesystem::path worker_folder(const WorkerPlace& worker);
  // In a folder that worker_folder() has created. Empty if the job has no files.
  std::filesystem::path error_file(const WorkerPlace& worker) const;
  // Where the workers' records of their collectives are read; only we may look into it, and it may not exist yet.
  // Empty: the job has no files, or none can be made.
  std::filesystem::path record_folder();
  // Shared by all ranks of a round; contains the workers' folders. Empty if the job has no files.
  std::filesystem::path round_folder(const WorkerPlace& worker) const;
  bool keeps_logs() const { return keeps_logs_; }
  // If logs are kept in a folder that the user did not name, that folder, to be printed. Else empty.
  std::filesystem::path unnamed_folder() const { return temporary_ && keeps_logs_ ? root_ : std::filesystem::path(); }
  // Removes the temporary folder without logs, unless a worker left an error file in it and `success` is false: then
  // returns it, to be printed.
  std::filesystem::path clean_up(bool success);

 private:
  void make_root();

  LogOptions options_;
  std::string run_;  // a folder's name
  bool keeps_files_, keeps_logs_;
  bool temporary_;
  std::filesystem::path root_;  // empty: not created yet
  std::filesystem::path temporary_folder_;
  std::filesystem::path record_root_;  // where logs are kept: a temporary folder, too
};

}  // namespace ddprun::agent
