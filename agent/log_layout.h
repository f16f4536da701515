// Where a job's files lie: <log-dir>/<run id>/round-N/rank-R/{stdout.log,stderr.log,error.json}, global rank in the
// name, <log-dir>/latest pointing to the run. Nothing is erased by a later round or a later run: logs are appended to.
//
// Without a log directory there are no log files; error files lie in a temporary folder that goes away on success.
#pragma once
#include <filesystem>
#include <string>

namespace ddprun {

class LogLayout {
 public:
  // `log_dir` empty: temporary folder for error files; "/dev/null": no files at all, as torchrun has it.
  // Throws Error where a folder cannot be made.
  LogLayout(const std::string& log_dir, const std::string& run_id);
  // Makes the folder. Empty where there are no files.
  std::filesystem::path worker_folder(int round, int rank);
  bool keeps_logs() const { return keeps_logs_; }
  // Removes the temporary folder, unless a worker left an error file in it and `success` is false.
  void clean_up(bool success);

 private:
  bool keeps_files_ = true;
  bool keeps_logs_ = false;
  std::filesystem::path root_;  // empty: not made yet
};

}  // namespace ddprun
