// Writes what is kept of a running job: its record, and at the end output_path.
//
// By threads of its own: neither a full disk nor a file system that does not answer holds up or ends the job. What
// cannot be written is said once, and once when it can be again.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "agent/process/files/file_thread.h"
#include "launcher/jobs/job_record.h"

namespace ddprun::launcher {

struct RecordContent {
  nlohmann::json status, result;  // status.json, result.json
};

class RecordWriter {
 public:
  // `say` gets sentences, from any thread.
  RecordWriter(JobRecord record, const std::function<void(const std::string&)>& say);

  // Before the job starts, in this thread. Throws Error.
  void write_first(const RecordContent& content) const;
  // Replaces what waits. What fails is to be written again later: fails().
  void write(RecordContent content);
  bool fails() const;
  // Writes result.json and a copy of the log into a folder.
  void hand_over(const std::filesystem::path& folder, const nlohmann::json& result);
  // All is written, or could not be.
  bool record_is_done() { return record_files_.drain({}); }
  bool all_is_done() { return record_is_done() && output_files_.drain({}); }

 private:
  struct Shared;
  const std::shared_ptr<Shared> shared_;
  agent::FileThread record_files_, output_files_;
};

}  // namespace ddprun::launcher
