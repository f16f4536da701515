// Texts of files that others may replace while we run: they are read again when they are needed, if they have changed.
//
// By a FileThread, so that a file system that does not answer holds up nobody: then, and where the new texts cannot be
// used, the old ones stay in use, and the next check tries again. Not thread-safe.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agent/process/files/file_thread.h"

namespace ddprun::agent {

class RenewedFiles {
 public:
  // Uses the texts, or returns why they cannot be used. In the order of Options::files; none of them is empty.
  using Use = std::function<std::string(const std::vector<std::string>& texts)>;
  struct Options {
    std::string what;  // for people: "certificate of the metrics"
    std::vector<std::string> files;
    Duration check_every = std::chrono::seconds(1);  // at most; the first time so long after our construction
    int said_after = 3;  // checks in a row: files that belong together are not replaced at the same moment
  };
  // `thread` must outlive us. `say` gets one sentence, without its end, until the files can be used again.
  RenewedFiles(Options options, FileThread& thread, Use use, std::function<void(const std::string&)> say);

  // Reads them now, in the caller's thread. Why they cannot be used; empty: they are.
  std::string read();
  void check();

 private:
  // Changes when a file is replaced or written to.
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t size = 0, changed_ns = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  using Stamps = std::vector<Stamp>;
  struct Texts;
  static Stamp stamp_of(const std::string& file);
  static Texts read_changed(const std::vector<std::string>& files, const std::optional<Stamps>& used);
  std::string take(const Texts& texts);

  const Options options_;
  FileThread& thread_;
  const Use use_;
  const std::function<void(const std::string&)> say_;
  std::optional<Stamps> used_;  // of the texts in use; empty: not known
  int failures_ = 0;
  TimePoint checked_ = Clock::now();
};

}  // namespace ddprun::agent
