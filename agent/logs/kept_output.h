// What this node's workers have printed last, for who asks about a rank (`ddprun log --rank`): in memory, of streams
// that pass through us, and else which file a worker writes itself.
//
// Thread-safe: streams are read in the thread of LogPipes, and asked about by the loop.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace ddprun::agent {

class KeptOutput : public std::enable_shared_from_this<KeptOutput> {
 public:
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;  // of a worker, both streams together

  // Of one stream. Neither: it goes where ours goes, or nowhere.
  struct Stream {
    bool kept = false;
    std::filesystem::path file = {};
  };
  struct Worker {
    int round = 0, rank = 0;
    Stream out = {}, err = {};
  };
  // It starts, or stays in another round. What another rank has printed at its place is forgotten.
  void starts(int local_rank, const Worker& worker);
  // For the bytes of its streams, as they come. It keeps us alive.
  std::function<void(std::string_view bytes)> tap(int local_rank);

  // Its local rank; empty: no worker of the newest round here has this rank.
  std::optional<int> local_rank_of(int rank) const;
  Worker worker(int local_rank) const;
  // Where its output begins that is kept, and that of its newest round.
  struct Begin {
    std::uint64_t kept = 0, round = 0;
  };
  Begin begin(int local_rank) const;
  // The bytes from `begin` on, at most `most`, of a stream that began at 0. Where those are gone: from the first whole
  // line that is left.
  struct Piece {
    std::uint64_t begin = 0, end = 0;  // `end`: of the piece
    bool more = false;
    std::string bytes = {};
  };
  Piece read(int local_rank, std::uint64_t begin, std::size_t most) const;

 private:
  struct Slot {
    Worker worker = {};
    std::deque<std::string> blocks = {};
    std::uint64_t begin = 0, end = 0;  // of what the blocks have
    bool cut = false;                  // there was something before
    std::uint64_t round_begin = 0;     // where the newest round begins
  };
  void take(int local_rank, std::string_view bytes);

  mutable std::mutex mutex_;
  std::map<int, Slot> slots_;  // by local rank
};

}  // namespace ddprun::agent
