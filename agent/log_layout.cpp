#include "agent/log_layout.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "rendezvous/error.h"

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr const char* kNoFiles = "/dev/null";

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError("cannot make the log folder " + folder.string(), error.message(), "Pass another --log-dir.");
}

fs::path make_temporary_folder() {
  std::error_code error;
  fs::path base = fs::temp_directory_path(error);
  if (error) throw UsageError("no folder for temporary files", error.message(), "Set TMPDIR, or pass --log-dir.");
  std::string name = (base / "ddprun-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw UsageError("cannot make a folder in " + base.string(), std::strerror(errno),
                     "Set TMPDIR, or pass --log-dir.");
  return name;
}

void point_latest_to(const fs::path& log_dir, const std::string& run_id) {
  std::error_code ignored;  // a convenience: a job must not fail for it
  const fs::path fresh = log_dir / (".latest-" + run_id);
  fs::create_directory_symlink(run_id, fresh, ignored);
  fs::rename(fresh, log_dir / "latest", ignored);
}

bool holds_files(const fs::path& folder) {
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(folder, ignored))
    if (entry.is_regular_file(ignored)) return true;
  return false;
}

}  // namespace

LogLayout::LogLayout(const std::string& log_dir, const std::string& run_id) {
  keeps_files_ = log_dir != kNoFiles;
  keeps_logs_ = keeps_files_ && !log_dir.empty();
  if (!keeps_logs_) return;
  root_ = fs::absolute(log_dir) / run_id;
  make_folder(root_);
  point_latest_to(root_.parent_path(), run_id);
}

fs::path LogLayout::worker_folder(int round, int rank) {
  if (!keeps_files_) return {};
  if (root_.empty()) root_ = make_temporary_folder();
  const fs::path folder = root_ / ("round-" + std::to_string(round)) / ("rank-" + std::to_string(rank));
  make_folder(folder);
  return folder;
}

void LogLayout::clean_up(bool success) {
  if (root_.empty() || keeps_logs_ || (!success && holds_files(root_))) return;
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  root_.clear();
}

}  // namespace ddprun
