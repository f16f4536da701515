// Where the snapshots of a run lie on disk, which of them counts, and which are kept.
//
//   run.pt                   the newest
//   run-g2-s120.pt           one before it: of generation 2, step 120
//   run-best.pt              the best by its metric
//   run.pt.generation        the newest generation that has begun here; who belongs to an older one writes no more
//   run.pt.damaged           could not be read, put aside with a warning
//   run.pt.writing.*         half a file; it goes when the next generation begins
//
// A file is there whole or not at all: it is written under a temporary name, synced, renamed, and its folder synced.
// Files of other names, be they further links to a snapshot, are never touched. A generation is one group's life
// between two resumes; it grows with each of them, over restarts, launchers and jobs, so that (generation, step) orders
// all snapshots of a run. Knows bytes only; what they mean is snapshot_format.h's matter.
//
// For one thread, and one process at a time in each folder. What the file system refuses is an Error.
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
  std::int64_t generation = 0;  // 0: not known, as of a file that Python wrote
  std::int64_t step = 0;
  std::string digest = {};  // of the content
  std::optional<double> metric = {};

  bool is_newer_than(const SnapshotStamp& other) const {
    return generation != other.generation ? generation > other.generation : step > other.step;
  }
};

enum class BestMetric { none, highest, lowest };

// run-ENDING.pt of run.pt
std::string path_beside(const std::string& path, const std::string& ending);

struct SnapshotPolicy {
  std::string path;
  int keep_last = 2;  // the newest among them; at least 1
  BestMetric best = BestMetric::none;
};

class SnapshotFolder {
 public:
  // Throws a DamagedFile (damaged.h) for bytes that are no good; `name` is for its message. Anything else it throws
  // ends the search, and every file stays what it is.
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

  // The newest one that is good; a sentence for each bad one, which is put aside. Before the first write(). An Error
  // where the disk, or the memory, cannot hold what is there.
  std::optional<Found> find(const Verify& verify, const Warn& warn);
  // After find(): puts all of them aside, so that the next one finds none. The newest becomes PATH.old, the others go.
  // Whether there was one.
  bool retire();

  // The metric of the best one here. Another folder of the run may know of a better one: from then on only what is
  // better still becomes the best.
  std::optional<double> best_metric() const { return best_metric_; }
  void know_best(std::optional<double> metric);

  // The highest generation that left a trace; 0: none.
  std::int64_t last_generation() const;
  // From now on only writers of this generation, or of later ones, are let through.
  void begin(std::int64_t generation);

  // Leaves a mark, over any other one, until a generation begins: machines that share a folder read the same one.
  void claim(const std::string& mark);
  std::string claimed_by() const;

  // Finds out before the first step what write() would say after it: a folder that is not there, or is not ours.
  void check_writable() const;
  // Where it throws, what was there is still there. So it does once a newer generation has begun.
  void write(const SnapshotStamp& stamp, const Produce& produce);

 private:
  struct Older {
    std::string path;
    std::int64_t generation, step;
  };

  std::string name_with(const std::string& ending) const;  // run-ENDING.pt
  std::string older_name(const SnapshotStamp& stamp) const;
  std::vector<Older> older() const;  // the newest first
  std::string temporary() const;
  bool exists(const std::string& path) const;
  std::optional<std::string> read(const std::string& path) const;
  std::optional<Found> try_read(const std::string& path, const Verify& verify, const Warn& warn);
  void put_aside(const std::string& path, const std::string& why, const Warn& warn);
  bool is_better(double metric, double than) const;
  bool is_best(const std::optional<double>& metric) const;
  void copy(const std::string& from, const std::string& to);
  void write_temporary(const std::string& path, const Produce& produce);
  void give_name(const std::string& temporary, const SnapshotStamp& stamp);
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
