// The file operations that snapshots use; tests replace them to drop what was not synced.
//
// As on a real disk, only what sync() and sync_folder() have returned for survives a power cut. Throws
// std::system_error on a file system error.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

class NewFile {
 public:
  virtual ~NewFile() = default;  // closes it
  virtual void append(const void* data, std::size_t size) = 0;
  virtual void sync() = 0;
};

class Files {
 public:
  virtual ~Files() = default;

  // Names of all files in a folder, without the folder; none if it does not exist.
  virtual std::vector<std::string> names(const std::string& folder) = 0;
  // Empty if there is no such file.
  virtual std::optional<std::string> read(const std::string& path) = 0;
  // Another one for each content that a path has ever had, the same on all machines that share it; empty if there is no
  // such file. Reads no content.
  virtual std::string identity(const std::string& path) = 0;
  // A new, empty file; replaces an existing file or link, but leaves a link's target alone.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Makes a hard link; false if the file system does not support it.
  virtual bool link(const std::string& from, const std::string& to) = 0;
  // A missing file is no error.
  virtual void remove(const std::string& path) = 0;
  virtual void sync_folder(const std::string& folder) = 0;
  // Throws if no file could be created.
  virtual void check_writable(const std::string& folder) = 0;
};

// The machine's file system. Thread-safe.
Files& disk();

// "." for a name without one.
std::string folder_of(const std::string& path);

// The reason and the remedy when a folder is not writable.
struct Refusal {
  std::string why, remedy;
  bool of_name = false;  // another name mends it, and no later try does
};
// Of an errno.
bool is_of_name(int error);
Refusal refusal_of(const std::string& path, int error);

// After an error, which may affect this, too: it says more than one of this would.
void remove_if_possible(Files& files, const std::string& path);

// Writes and syncs a file, then renames it: `path` has the old content or all of the new. `temporary` is in the same
// folder, and is not there any more. The new name is safe once the folder is synced.
void write_and_rename(Files& files, const std::string& path, const std::string& temporary, const std::string& bytes);

// The bytes of a file that must exist; `what` names its purpose in the Error.
std::string read_whole_file(const std::string& path, const std::string& what);

}  // namespace ddprun
