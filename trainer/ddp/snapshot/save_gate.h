// Where the ranks of a job stop to save: all of them at the end of one and the same step.
//
// They are at different steps when they hear of it, and at different times. So each rank first closes its gate: its
// training thread goes no further than the end of the step it is in. Then it tells the others the step at which it
// would wait, at the latest; the highest of these is where all save, and each gate opens as far. Nobody can be beyond
// it, and nobody waits for a rank that waits in a collective: gates are closed and opened by other threads.
//
// SaveGate knows neither store nor signals. reached() belongs to the training thread, all else to any other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "rendezvous/base/time.h"
#include "rendezvous/store/client.h"

namespace ddprun {

class SaveGate {
 public:
  // The training thread has done `step`. True: here the ranks save. Waits while the gate is closed, `limit` at most;
  // Error after it, and where the ranks could not agree.
  bool reached(std::uint64_t step, Duration limit);

  // At which step the training thread stops at the latest; 0: at the first one that it tells.
  std::uint64_t close();
  void open_up_to(std::uint64_t step);   // 1 or more
  void fail(const std::string& reason);  // the ranks cannot agree

 private:
  static constexpr std::uint64_t kClosed = 0, kOpen = UINT64_MAX;
  bool wait_for_step(std::uint64_t step, Duration limit);

  // The training thread writes the first and then reads the second, close() the other way round: both in one order
  // (seq_cst), or each could miss the other's news.
  std::atomic<std::uint64_t> next_ = 0;  // after the last one told
  std::atomic<std::uint64_t> last_ = kOpen;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;
};

// Tells the others where this rank would stop; once for each rank.
void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size, std::uint64_t stop);
// The highest that any rank has offered, 1 at least, once all have. Empty: they have not within `limit`.
std::optional<std::uint64_t> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit);

}  // namespace ddprun
