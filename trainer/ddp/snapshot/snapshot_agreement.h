// Which snapshot all ranks resume from, which of them write, and the generation that begins: agreed once, when a group
// has met.
//
// One rank of each machine looks into its folder and tells the others generation, step and digest; the newest counts.
// Machines that share a folder find so by a mark that they leave there: the last one's stays, and rank 0's is the last.
//
// Every rank makes one; what one of them cannot do is an exception on all.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "ddprun/process_group.h"
#include "ddprun/snapshot.h"
#include "trainer/ddp/snapshot/snapshot_folder.h"
#include "trainer/ddp/snapshot/snapshot_format.h"

namespace ddprun {

class SnapshotAgreement {
 public:
  // The folder outlives it. `options.say` is set.
  SnapshotAgreement(SnapshotFolder& folder, const SnapshotOptions& options, const ProcessGroup& group);

  bool writes() const { return writes_; }                   // this rank, for its folder
  bool rank_0_writes_alone() const { return one_writer_; }  // all machines share a folder, or there is one
  std::int64_t generation() const { return generation_; }
  const std::string& path() const { return path_; }  // of the agreed one, on the machine that has it

  // The agreed snapshot, if there is one, and a copy in each folder that lacks it. Every rank calls it, once.
  std::optional<Snapshot> fetch();
  // Frees the memory that fetch() would need.
  void forget() { own_bytes_ = {}; }

 private:
  bool claim_folder();
  std::optional<SnapshotFolder::Found> look();
  void agree(const std::optional<SnapshotFolder::Found>& found);
  std::optional<Snapshot> read_here() const;

  SnapshotFolder& folder_;
  const SnapshotOptions& options_;
  const ProcessGroup& group_;
  bool writes_ = false;
  bool one_writer_ = true;
  std::int64_t generation_ = 0;
  int holder_ = -1;  // the rank that has the agreed one; -1: there is none
  SnapshotStamp agreed_;
  std::string path_;
  std::string own_bytes_, own_digest_;  // of this rank's folder's newest
};

// Generation, step, digest and metric.
SnapshotStamp stamp_of(const Snapshot& snapshot);

}  // namespace ddprun
