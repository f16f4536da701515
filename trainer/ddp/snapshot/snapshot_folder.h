// The snapshots of a run on disk: their names, which is the newest, and which are kept.
//
//   run.pt                   the newest
//   run-g2-s120.pt           an older one: of generation 2, step 120
//   run-best.pt              the best by its metric
//   run.pt.generation        the newest generation that has begun here; writers of older ones stop
//   run.pt.damaged           could not be read, renamed with a warning
//   run.pt.writing.*         an incomplete file; removed when the next generation begins
//
// A file is written whole or not at all: to a temporary file, which is synced and renamed; then its folder is synced.
// Files of other names, also hard links to a snapshot, are never touched. A generation is the time between two resumes;
// each resume increases it, across restarts, launchers and jobs, so that (generation, step) orders all snapshots of a
// run. Handles only bytes; snapshot_format.h interprets them.
//
// For one thread, and one process at a time in each folder. Throws Error on a file system error.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rendezvous/base/error.h"
#include "trainer/ddp/snapshot/files.h"

namespace ddprun {

struct SnapshotStamp {
  std::int64_t generation = 0;  // 0: unknown, as for a file that Python wrote
  std::int64_t step = 0;
  std::string digest = {};  // of the content
  std::optional<double> metric = {};

  bool is_newer_than(const SnapshotStamp& other) const {
    return generation != other.generation ? generation > other.generation : step > other.step;
  }
};

enum class BestMetric { none, highest, lowest };

// run-ENDING.pt of run.pt
std::string path_with_suffix(const std::string& path, const std::string& ending);

struct SnapshotPolicy {
  std::string path;
  int keep_last = 2;  // including the newest; at least 1
  BestMetric best = BestMetric::none;
};

class SnapshotFolder {
 public:
  // Throws DamagedFile (damaged.h) for bad bytes; `name` is for its message. Any other exception ends the search, and
  // every file stays unchanged.
  using Verify = std::function<SnapshotStamp(const std::string& bytes, const std::string& name)>;
  using Warn = std::function<void(const std::string& sentence)>;
  // Appends a snapshot's content to the file.
  using Produce = std::function<void(NewFile& file)>;

  struct Found {
    std::string path;
    std::string bytes;
    SnapshotStamp stamp;
  };

  explicit SnapshotFolder(SnapshotPolicy policy, Files& files = disk());

  // Returns the newest good one; warns of each bad one and renames it. Call it before the first write(). Throws Error
  // on a disk error or without enough memory.
  std::optional<Found> find(const Verify& verify, const Warn& warn);
  // What find() and the writes since have learned, for a process that goes on from a copy of the snapshot elsewhere.
  struct Known {
    std::optional<SnapshotStamp> newest = {};  // of PATH
    std::optional<double> best_metric = {};
    std::string identities = {};  // of the files that these are about
  };
  Known known() const;
  // Instead of find(), and without reading a snapshot. False: the files are not those any more, call find().
  bool take(const Known& known);

  // After find(): retires all snapshots, so that the next find() returns none. The newest becomes PATH.old, the others
  // are removed. Returns whether there was one.
  bool retire();

  // The metric of the best one here. If another folder of the run has a better one, only a still better one becomes the
  // best.
  std::optional<double> best_metric() const { return best_metric_; }
  void set_known_best(std::optional<double> metric);

  // The highest generation of any file here; 0: none.
  std::int64_t last_generation() const;
  // From now on only writers of this or a later generation may write.
  void begin(std::int64_t generation);

  // Writes a mark, replacing any other, until a generation begins: machines that share a folder read the same one.
  void claim(const std::string& mark);
  std::string claimed_by() const;

  // Detects before the first step why write() would fail: the folder is missing or not ours.
  void check_writable() const;
  // If it throws, the old file is still there. It also throws once a newer generation has begun.
  void write(const SnapshotStamp& stamp, const Produce& produce);

 private:
  struct Older {
    std::string path;
    std::int64_t generation, step;
  };

  std::string identities() const;
  std::string name_with(const std::string& ending) const;  // run-ENDING.pt
  std::string older_name(const SnapshotStamp& stamp) const;
  std::vector<Older> older() const;  // the newest first
  bool exists(const std::string& path) const;
  std::optional<std::string> read(const std::string& path) const;
  std::optional<Found> try_read(const std::string& path, const Verify& verify, const Warn& warn);
  void set_aside(const std::string& path, const std::string& why, const Warn& warn);
  bool is_better(double metric, double than) const;
  bool is_best(const std::optional<double>& metric) const;
  void copy(const std::string& from, const std::string& to);
  void write_temporary(const std::string& path, const Produce& produce);
  void rename_to_newest(const std::string& temporary, const SnapshotStamp& stamp);
  void keep_as_best(const SnapshotStamp& stamp);
  void remove_surplus();
  std::int64_t fence() const;

  SnapshotPolicy policy_;
  Files& files_;
  std::string folder_;
  std::int64_t generation_ = 0;
  std::optional<SnapshotStamp> newest_;  // of PATH
  std::optional<double> best_metric_;
};

}  // namespace ddprun
