// Snapshots in memory: a file without a name (memfd) that the agent makes and passes to its workers in every round, so
// that what they keep in it outlives them (--memory-snapshots).
//
// It has areas of two slots each, one for the machine's state and one for each local rank. A snapshot replaces the
// older one of the two, and counts once its slot is marked as complete: a worker that is killed meanwhile leaves the
// other one. It can be written to only while write() runs: a stray write of the program does not reach it. What a slot
// holds is the caller's.
//
// Layout, numbers of 64 bits in the machine's byte order (worker_channel.py knows it, too):
//   0                     magic, version, areas, bytes, adopted generation, identity (two numbers), user
//   4096 + n * (4096 + bytes, in whole pages), for area n / 2, slot n % 2:
//     a page              complete (1) or not, generation, step, sequence, size, size of the note, then the note
//     the content
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/base/fd.h"

namespace ddprun {

// Its descriptor and the worker's local rank: "58:0".
constexpr const char* kSnapshotMemoryVariable = "DDPRUN_SNAPSHOT_MEMORY";
constexpr std::size_t kSnapshotNoteMax = 4000;  // bytes

class SnapshotMemory {
 public:
  struct Stamp {
    std::uint64_t generation = 0, step = 0;
    auto operator<=>(const Stamp&) const = default;  // of two the higher one is newer
  };
  struct Kept {
    Stamp stamp;
    std::uint64_t sequence = 0;  // counts the writes to an area
    std::uint64_t bytes = 0;
    std::string note;
  };

  // `bytes`: all snapshots of one area together. Takes no memory before something is written. Throws std::system_error.
  static SnapshotMemory create(int areas, std::uint64_t bytes);
  // A new one of so many areas, with what the first area of this one keeps and the same identity and user; what local
  // ranks have kept is gone. No process may write to this one. Throws std::system_error.
  SnapshotMemory with_areas(int areas) const;
  // The agent's, in a worker; empty: there is none.
  static std::optional<SnapshotMemory> inherited();
  // Takes the descriptor; empty: it is something else.
  static std::optional<SnapshotMemory> opened(Fd fd);

  int fd() const { return fd_.get(); }
  // The same in all processes that share this memory, and in no other.
  std::string identity() const;
  std::uint64_t snapshot_bytes_max() const { return bytes_ / 2; }

  // Up to two, the later written first.
  std::vector<Kept> kept(int area) const;
  // The content of one that kept() has returned; empty: it has been replaced since.
  std::optional<std::string> read(int area, const Kept& kept) const;
  enum class Copy { by_all_cores, by_this_thread };
  // Replaces the older one. The pieces together are its content, at most snapshot_bytes_max(); the note is cut at
  // kSnapshotNoteMax. Throws std::system_error; the newer one stays in any case.
  void write(int area, const Stamp& stamp, const std::vector<std::string_view>& pieces, std::string_view note = {},
             Copy copy = Copy::by_all_cores);

  // Forgets the area's snapshots but this one, so that the next write does not replace it.
  void keep_only(int area, const Stamp& stamp);
  // Whose it is: the first who asks, by any number but 0. False: somebody else's.
  bool claim(std::uint64_t user);

  // The newest generation that went on from a snapshot in this memory; 0: none.
  std::uint64_t adopted_by() const;
  void adopt(std::uint64_t generation);

 private:
  struct Mapped {
    std::shared_ptr<char> begin = {};
    std::uint64_t bytes = 0;
  };
  SnapshotMemory(Fd fd, int areas, std::uint64_t bytes) : fd_(std::move(fd)), areas_(areas), bytes_(bytes) {}
  std::uint64_t place(int area, int slot) const;
  std::optional<Kept> kept_in(int area, int slot) const;
  bool copy_to_mapped(const std::vector<iovec>& pieces, std::uint64_t size, std::uint64_t at, Copy copy);

  Fd fd_;
  int areas_;
  std::uint64_t bytes_;
  std::map<std::uint64_t, Mapped> mapped_ = {};  // contents of slots, by their place; write-protected
};

}  // namespace ddprun
