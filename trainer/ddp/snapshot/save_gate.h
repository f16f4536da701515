// Stops the ranks of a job to save, all of them at the end of the same step.
//
// They receive the request at different times and at different steps. So each rank first closes its gate: its training
// thread stops at the end of its current step. Then it tells the others the step at which it would wait, at the latest;
// all save at the highest of these, and each gate opens up to it. No rank can be beyond it, and none waits for a rank
// that waits in a collective: other threads close and open the gates.
//
// SaveGate uses neither store nor signals. The training thread calls reached(), any other thread the rest.
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
  // The training thread has done `step`. Returns true if the ranks save here. Waits while the gate is closed, `limit`
  // at most; throws Error after it, or if the ranks could not agree.
  bool reached(std::uint64_t step, Duration limit);

  // Returns the latest step at which the training thread stops; 0: at the first one that it reports.
  std::uint64_t close();
  void open_up_to(std::uint64_t step);   // 1 or more
  void fail(const std::string& reason);  // the ranks cannot agree

 private:
  static constexpr std::uint64_t kClosed = 0, kOpen = UINT64_MAX;
  bool wait_for_step(std::uint64_t step, Duration limit);

  // The training thread writes the first and then reads the second, close() the reverse. Needs seq_cst: otherwise each
  // could miss the other's write.
  std::atomic<std::uint64_t> next_ = 0;  // after the last reported one
  std::atomic<std::uint64_t> last_ = kOpen;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;
};

// Tells the others where this rank would stop; called once by each rank.
void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size, std::uint64_t stop);
// The highest step that any rank offered, at least 1, once all have. Empty if they have not within `limit`.
std::optional<std::uint64_t> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit);

}  // namespace ddprun
