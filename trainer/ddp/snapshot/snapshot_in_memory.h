// This machine's copy of a run's newest snapshot in memory (--memory-snapshots), which outlives the workers.
//
// The first of the ranks that share a memory writes it, in area 0; each of them may read it. Where all ranks share one,
// each writes its generators and its own data, in the area after its place among them, instead of a collective.
#pragma once
#include <chrono>
#include <cstdint>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "rendezvous/memory/snapshot_memory.h"
#include "trainer/ddp/snapshot/memory_image.h"
#include "trainer/ddp/snapshot/snapshot_folder.h"
#include "trainer/ddp/snapshot/snapshot_format.h"
#include "trainer/ddp/snapshot/staging.h"

namespace ddprun {

class SnapshotInMemory {
 public:
  struct Found {
    SnapshotStamp stamp;
    SnapshotFolder::Known known;  // of this machine's folder, when it was written
    std::string content;
    Snapshot snapshot;
  };

  // `path`: of the run's snapshots on disk; another one's are not found.
  SnapshotInMemory(std::optional<SnapshotMemory> memory, const std::string& path);

  // SnapshotMemory::identity(); empty: there is none, or another run of the program uses it.
  std::string identity();

  // Generation, step and finished epochs: at an epoch's end there are two states of one step.
  using Stamp = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
  using Stamps = std::set<Stamp>;
  // `digests`: whether stamps get one, for machines to compare. The newest that has all ranks' parts, by itself or
  // because it is one of `complete`; else the newest. Ignores a copy that cannot be read.
  std::optional<Found> find(bool digests, const Stamps& complete) const;
  // Throws Error, and Malformed if another machine's `content` is damaged.
  void write(const Snapshot& snapshot, const SnapshotFolder::Known& known);
  // The same by a thread: do not change tensors before finish(), which throws what went wrong. start_write() and
  // write() wait for it, too; call finish() before write_own(). Without a model or an own part only the other one is
  // written.
  struct OwnPart {
    int place = 0;
    Stamp stamp;
    OwnState state;
  };
  struct Model {
    Snapshot snapshot;
    SnapshotFolder::Known known;
    std::vector<at::Tensor> changing = {};  // of the snapshot: a forward pass may change them
  };
  // Numbers of one element on `device`, which the own part gets by these names. Where one is not finite neither part is
  // written, and finish() returns false.
  using Numbers = std::vector<std::pair<std::string, at::Tensor>>;
  void start_write(std::optional<OwnPart> own, std::optional<Model> model, at::Device device, Numbers numbers = {});
  bool finish();
  // Between start_write() and what changes the tensors next, instead of finish(): on a GPU its work waits for the
  // copies, and the host does not. On a CPU it is finish().
  bool hold_back();
  // How long the device was copying for the last write that finish() waited for.
  std::chrono::duration<double> copying_time() const { return copying_time_; }
  void write(const Snapshot& received, const std::string& content, const SnapshotFolder::Known& known);

  Stamps own_stamps(int place) const;
  std::optional<OwnState> find_own(int place, const Stamp& stamp) const;
  void write_own(int place, const Stamp& stamp, const OwnState& state);
  // Once all ranks go on from it: the next write is not to replace it.
  void keep_only(int place, const SnapshotStamp& stamp);

  // The newest generation that went on from a snapshot in this memory; 0: none.
  std::int64_t adopted_by() const;
  void adopt(std::int64_t generation);

 private:
  struct Written {
    bool finite = true;
    std::chrono::duration<double> copying_time{0};
  };
  struct Begun;
  Written complete(const Begun& begun);
  void write_model(const Snapshot& snapshot, const SnapshotFolder::Known& known, const MemoryImage& image,
                   SnapshotMemory::Copy copy);
  void write_pieces(int area, const SnapshotStamp& stamp, const std::vector<std::string_view>& pieces,
                    const std::string& note, SnapshotMemory::Copy copy);
  nlohmann::json note_if_ours(const SnapshotMemory::Kept& kept) const;

  std::optional<SnapshotMemory> memory_;
  std::string run_;  // names the path
  Staging staging_;
  std::shared_ptr<DeviceCopies> copies_;  // of the write that has begun, where there is a GPU
  std::chrono::duration<double> copying_time_{0};
  std::future<Written> writing_;  // the last member: it uses the others
};

// What machines tell each other about a folder that they share.
nlohmann::json json_of(const SnapshotFolder::Known& known);
SnapshotFolder::Known known_of(const nlohmann::json& json);

SnapshotInMemory::Stamp stamp_in_memory(const Snapshot& snapshot);

// What a content of find() holds. Throws DamagedFile.
Snapshot snapshot_of_content(const std::string& content, const std::string& digest);

}  // namespace ddprun
