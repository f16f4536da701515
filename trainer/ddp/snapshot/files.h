// The few things that snapshots ask of a file system: the seam at which tests drop what was not synced.
//
// As on a real one, nothing lasts through a power cut but what sync() and sync_folder() have returned for. What the
// file system refuses is a std::system_error.
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

  // Of all files in a folder, without their folder; none where it is not there.
  virtual std::vector<std::string> names(const std::string& folder) = 0;
  // Empty where there is no such file.
  virtual std::optional<std::string> read(const std::string& path) = 0;
  // A new file, empty; what was there is gone, or whatever it was a link to is left alone.
  virtual std::unique_ptr<NewFile> create(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // One more name of the same file; false where the file system has no such thing.
  virtual bool link(const std::string& from, const std::string& to) = 0;
  // Gone already is as good.
  virtual void remove(const std::string& path) = 0;
  virtual void sync_folder(const std::string& folder) = 0;
  // Throws where no file could be made.
  virtual void check_writable(const std::string& folder) = 0;
};

// The machine's own. Any thread may use it.
Files& disk();

// "." for a name without one.
std::string folder_of(const std::string& path);

// For a person whom a folder refused: what it lacks, and what helps.
struct Refusal {
  std::string why, remedy;
};
Refusal refusal_of(const std::string& path, int error);

// Writes a synced file and gives it its name; `path` is what it was, or the whole of the new content. `temporary` is in
// the same folder. Its name lasts once the folder is synced.
void put_in_place(Files& files, const std::string& path, const std::string& temporary, const std::string& bytes);

// The bytes of a file on disk that must be there; `what` says in the Error what it is for.
std::string read_whole_file(const std::string& path, const std::string& what);

}  // namespace ddprun
