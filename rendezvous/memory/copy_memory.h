// Snapshots in memory of which the next node of the round has a copy: a file without a name (memfd) that the agent
// makes beside SnapshotMemory's and passes to its workers in every round (keep(..., copy=True) in worker_channel.py).
//
// Each snapshot is that of one rank of one world, kept in one round at one step. Each local rank has three slots of its
// own, which its worker writes; three more are for what the node before has kept for its rank of that place, which the
// agent writes as it comes. A slot counts once it is marked as complete, as a SnapshotMemory's.
//
// Why three: a rank begins to write a snapshot when its last one is at the next node, and ranks that meet in a
// collective between two snapshots are at most one apart. Let m be the last one that all have written. Then every rank
// has m - 1 and m while it writes m + 1, and its copy of m - 1 is whole, and stays until that of m + 2 comes. So
// whichever node is lost, all ranks have m or m - 1.
//
// Layout, numbers of 64 bits in the machine's byte order (worker_channel.py knows it, too):
//   0                  magic, version, places (a node's local ranks), bytes of a slot, then of the current round: its
//                      number, the node's first rank, the world size, whether a copy goes to another node (1); and
//                      whether any worker has kept a snapshot with copy (1)
//   4096 + n * (4096 + bytes of a slot, in whole pages), for slot n:
//     a page           complete (1) or not, round, step, rank, world size, size, sequence, the sequence whose copy is
//     at
//                      the next node
//     the content
// Slot 3 * l + i is local rank l's own, slot 3 * (places + l) + i the node before's.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddprun {

constexpr const char* kCopyMemoryVariable = "DDPRUN_SNAPSHOT_COPIES";  // the descriptor's number

struct CopyLabel {
  std::uint64_t round = 0, step = 0;
  std::uint64_t rank = 0, world_size = 1;
  auto operator<=>(const CopyLabel&) const = default;  // of one rank and world, the higher one is newer
};

// Functions may be called from several threads: a slot is written by its worker or by one thread of the agent only.
class CopyMemory {
 public:
  static constexpr int kSlotsOfPlace = 3;
  struct Kept {
    CopyLabel label;
    std::uint64_t bytes = 0, sequence = 0;
    bool copied = false;
    int slot = 0;
  };
  struct Stamp {
    std::uint64_t round = 0, step = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Round {
    std::uint64_t number = 0, first_rank = 0, world_size = 1;
    bool has_neighbour = false;
  };
  enum class Part { own, of_neighbour };

  // `bytes`: of all slots together. Takes no memory before something is written. Throws std::system_error.
  static CopyMemory create(int places, std::uint64_t bytes);

  int fd() const { return fd_.get(); }
  int places() const { return places_; }
  std::uint64_t snapshot_bytes_max() const { return bytes_; }

  bool wanted() const;  // whether any worker has kept a snapshot with copy
  // Before the round's workers start: forgets all snapshots but those of this stamp and world, in slots of its own also
  // those of other ranks, and which copies are at the next node.
  void begin_round(const Round& round, const std::optional<Stamp>& kept);
  void set_neighbour(bool has_one);

  // What is complete, by slot.
  std::vector<Kept> kept() const;
  std::optional<Kept> find(const CopyLabel& label) const;
  // Its own slots have it.
  bool has_own(int place, const CopyLabel& label) const;

  // Chooses a slot for a snapshot: an empty one, one of the same label, else the oldest that is not of `spare`'s stamp.
  // It is empty until complete(). Empty: it is too large, or there is no such place.
  std::optional<int> begin_write(Part part, int place, const CopyLabel& label, std::uint64_t bytes,
                                 const std::optional<Stamp>& spare = {});
  // Throws std::system_error.
  void write(int slot, std::uint64_t at, std::string_view bytes);
  void complete(int slot);
  // Fills `to` from there. False: the snapshot has been replaced.
  bool read(const Kept& kept, std::uint64_t at, char* to, std::size_t count) const;
  void mark_copied(const Kept& kept);

 private:
  CopyMemory(Fd fd, int places, std::uint64_t bytes) : fd_(std::move(fd)), places_(places), bytes_(bytes) {}
  std::uint64_t place_of(int slot) const;
  std::optional<Kept> kept_in(int slot) const;
  int slots() const { return 2 * kSlotsOfPlace * places_; }
  bool is_own(int slot) const { return slot < kSlotsOfPlace * places_; }

  Fd fd_;
  int places_;
  std::uint64_t bytes_;
};

}  // namespace ddprun
