// Agrees on the snapshot to resume from, the ranks that write, and the new generation: once, after joining a group.
//
// One rank of each machine reads its folder and tells the others generation, step and digest; the newest is used. Where
// machines have it in memory no folder is read, provided that no later generation has begun on a disk.
// Machines detect a shared folder by a mark that each writes there: the last one stays, and rank 0's is the last.
//
// Every rank makes one; if one rank fails, all throw.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "ddprun/process_group.h"
#include "ddprun/snapshot.h"
#include "trainer/ddp/snapshot/snapshot_folder.h"
#include "trainer/ddp/snapshot/snapshot_format.h"
#include "trainer/ddp/snapshot/snapshot_in_memory.h"

namespace ddprun {

class SnapshotAgreement {
 public:
  // Folder and memory must outlive it. `options.say` must be set.
  SnapshotAgreement(SnapshotFolder& folder, SnapshotInMemory& memory, const SnapshotOptions& options,
                    const ProcessGroup& group);

  bool writes() const { return writes_; }                   // this rank, for its folder
  bool rank_0_writes_alone() const { return one_writer_; }  // all machines share a folder, or there is one
  std::int64_t generation() const { return generation_; }
  const std::string& path() const { return path_; }              // of the agreed snapshot, on the machine that has it
  bool in_memory() const { return in_memory_; }                  // the agreed snapshot is from there
  bool memory_everywhere() const { return memory_everywhere_; }  // the same on all ranks
  bool keeps_in_memory() const {
    return memory_everywhere_ && place_in_memory_ == 0;
  }                                                         // this rank, for those that share it
  bool shares_one_memory() const { return one_memory_; }    // all ranks
  int place_in_memory() const { return place_in_memory_; }  // among those that share it

  // Returns the agreed snapshot, if there is one, and copies it to each folder or memory that lacks it. Every rank
  // calls it, once.
  std::optional<Snapshot> fetch();
  // Frees the memory that fetch() would need.
  void forget();

 private:
  void find_memories();
  void find_complete();
  void add_own_state(Snapshot& snapshot) const;
  void find_in_memory();
  void agree_in_memory();
  void look_into_folders();
  void put_into_memory(const Snapshot& received, const std::string& content);
  std::optional<Snapshot> fetch_from_memory();
  bool has_agreed_in_memory() const;
  bool claim_folder();
  std::optional<SnapshotFolder::Found> find_snapshot();
  void agree(const std::optional<SnapshotFolder::Found>& found);
  std::optional<Snapshot> read_own_copy() const;

  SnapshotFolder& folder_;
  SnapshotInMemory& memory_;
  const SnapshotOptions& options_;
  const ProcessGroup& group_;
  bool writes_ = false;
  bool one_writer_ = true;
  std::int64_t generation_ = 0;
  int holder_ = -1;  // the rank that has the agreed one; -1: there is none
  SnapshotStamp agreed_;
  std::string path_;
  bool in_memory_ = false;
  bool memory_everywhere_ = true, one_memory_ = true;
  int place_in_memory_ = 0;
  std::optional<SnapshotInMemory::Found> kept_;  // this machine's
  SnapshotInMemory::Stamps complete_;            // in one memory: those of which each rank has kept its part
  // The newest that any machine keeps in memory.
  int keeper_ = -1;
  SnapshotStamp newest_kept_;
  std::int64_t newest_begun_ = 0;       // generation, of any folder or memory
  std::string own_bytes_, own_digest_;  // of the newest in this rank's folder
};

// Generation, step, digest and metric.
SnapshotStamp stamp_of(const Snapshot& snapshot);

}  // namespace ddprun
