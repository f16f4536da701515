#include "agent/logs/log_layout.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "agent/logs/stream_plan.h"
#include "agent/process/error_folder.h"
#include "agent/process/keeper.h"
#include "rendezvous/base/error.h"

namespace ddprun::agent {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLatest = "latest";

// Creates a new folder with a unique name.
fs::path make_unique_folder(const fs::path& name_start, const std::string& remedy) {
  std::string name = name_start.string() + "XXXXXX";
  if (!mkdtemp(name.data()))
    throw UsageError("cannot make a folder in " + name_start.parent_path().string(), std::strerror(errno), remedy);
  return name;
}

fs::path make_temporary_folder() {
  std::error_code error;
  const fs::path base = fs::temp_directory_path(error);
  if (error) throw UsageError("no folder for temporary files", error.message(), "Set TMPDIR, or pass --log-dir.");
  return make_unique_folder(base / "ddprun-", "Set TMPDIR, or pass --log-dir.");
}

// The run id as a single folder name, without path separators.
std::string folder_name(std::string run_id) {
  std::replace(run_id.begin(), run_id.end(), '/', '_');
  if (run_id == kLatest) return run_id + "_";  // the name of the link that points to the newest run
  return run_id == "." || run_id == ".." ? "_" : run_id;
}

void point_latest_to(const fs::path& log_dir, const std::string& run_id) {
  std::error_code ignored;  // a convenience: its failure must not fail a job
  const fs::path fresh = log_dir / (".latest-" + run_id);
  fs::create_directory_symlink(run_id, fresh, ignored);
  fs::rename(fresh, log_dir / kLatest, ignored);
}

fs::path round_name(LogTree tree, const WorkerPlace& worker) {
  return tree == LogTree::torchrun ? "attempt_" + std::to_string(worker.restarts)
                                   : "round-" + std::to_string(worker.round);
}

// torchrun's tree is never flat.
bool is_flat(const LogOptions& options) { return options.tree == LogTree::ddprun && !keeps_logs(options); }

}  // namespace

std::string run_folder(LogTree tree, const std::string& run_id) {
  return folder_name(run_id) + (tree == LogTree::torchrun ? "_XXXXXX" : "");
}

fs::path worker_folder_in_run(LogTree tree, const WorkerPlace& worker) {
  const bool torchrun = tree == LogTree::torchrun;
  return round_name(tree, worker) /
         (torchrun ? std::to_string(worker.local_rank) : "rank-" + std::to_string(worker.rank));
}

fs::path error_file_in_run(const LogOptions& options, const WorkerPlace& worker) {
  if (!is_flat(options)) return worker_folder_in_run(options.tree, worker) / "error.json";
  return "round-" + std::to_string(worker.round) + "-rank-" + std::to_string(worker.rank) + "-error.json";
}

void make_log_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw UsageError("cannot make the log folder " + folder.string(), error.message(), "Pass another --log-dir.");
}

LogLayout::LogLayout(const LogOptions& options, const std::string& run_id)
    : options_(options),
      run_(folder_name(run_id)),
      keeps_files_(!refuses_files(options)),
      keeps_logs_(agent::keeps_logs(options)),
      temporary_(options.log_dir.empty()) {
  if (!keeps_logs_) return;
  if (!temporary_) make_log_folder(root_ = fs::absolute(options.log_dir));
  make_root();
}

void LogLayout::make_root() {
  if (temporary_) root_ = temporary_folder_ = make_temporary_folder();
  if (!keeps_logs_) let_keeper_remove(temporary_folder_);
  if (options_.tree == LogTree::torchrun) {
    root_ = make_unique_folder(root_ / (run_ + "_"), "Pass another --log-dir.");
  } else if (!temporary_) {
    make_log_folder(root_ /= run_);
    point_latest_to(root_.parent_path(), run_);
  }
}

fs::path LogLayout::round_folder(const WorkerPlace& worker) const {
  return root_.empty() ? fs::path() : root_ / round_name(options_.tree, worker);
}

void LogLayout::make_error_folder() {
  if (keeps_files_ && root_.empty()) make_root();
}

fs::path LogLayout::log_folder(const WorkerPlace& worker) const {
  return root_ / worker_folder_in_run(options_.tree, worker);
}

fs::path LogLayout::worker_folder(const WorkerPlace& worker) {
  if (!keeps_files_) return {};
  make_error_folder();
  if (is_flat(options_)) return root_;
  const fs::path folder = log_folder(worker);
  make_log_folder(folder);
  return folder;
}

fs::path LogLayout::error_file(const WorkerPlace& worker) const {
  return root_.empty() ? fs::path() : root_ / error_file_in_run(options_, worker);
}

// Logs may be kept on a file system that has no sockets.
fs::path LogLayout::record_folder() {
  if (root_.empty()) return {};
  if (!keeps_logs_) return temporary_folder_ / kRecordFolder;
  if (record_root_.empty()) {
    try {
      let_keeper_remove(record_root_ = make_temporary_folder());
    } catch (const Error&) {  // hangs are found all the same
      return {};
    }
  }
  return record_root_ / kRecordFolder;
}

fs::path LogLayout::clean_up(bool success) {
  std::error_code ignored;
  if (!record_root_.empty()) {
    let_keeper_remove({});
    fs::remove_all(record_root_, ignored);
  }
  if (root_.empty() || keeps_logs_) return {};
  let_keeper_remove({});
  if (!success) fs::remove_all(temporary_folder_ / kRecordFolder, ignored);
  if (!success && remove_without_error_files(temporary_folder_)) return temporary_folder_;
  fs::remove_all(temporary_folder_, ignored);
  root_.clear();
  return {};
}

}  // namespace ddprun::agent
