// Stops the ranks of a job to save, all of them at the end of the same step.
//
// They receive the request at different times and at different steps. So each rank first closes its gate: its training
// thread stops at the end of its current step. Then it tells the others the step at which it would wait, at the latest;
// all save at the highest of these, and each gate opens up to it. No rank can be beyond it, and none waits for a rank
// that waits in a collective: other threads close and open the gates.
//
// Between two steps there may be further points at which all ranks can stop, as in an evaluation: a Position names the
// step and the point after it, so that positions are in the order of time.
//
// A save may be the end (a preemption) or not (`ddprun ctl snapshot`): then the gate is opened again behind it.
//
// SaveGate uses neither store nor signals. The training thread calls reached() and reached_between(), any other thread
// the rest.
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
  using Position = std::uint64_t;
  static constexpr Position kFirst = 1;
  static constexpr unsigned kPointBits = 16;  // more points than that between two steps count as one
  // Of the step, and of its n-th point after it.
  static constexpr Position position(std::uint64_t step, std::uint64_t point = 0) {
    return ((step + 1) << kPointBits) + point;
  }

  // The training thread has done `step`. Returns true if the ranks save here. Waits while the gate is closed, `limit`
  // at most; throws Error after it, or if the ranks could not agree.
  bool reached(std::uint64_t step, Duration limit);
  // The same at a further point after the last step. All ranks must have the same points.
  bool reached_between(Duration limit);

  // Returns the latest position at which the training thread stops; 0: at the first one that it reports.
  Position close();
  void open_up_to(Position position);    // kFirst or later
  void fail(const std::string& reason);  // the ranks cannot agree
  void reopen();                         // as at the beginning: nobody has to stop

 private:
  static constexpr Position kClosed = 0, kOpen = UINT64_MAX;
  bool reached_position(Position position, Duration limit);
  bool wait_at(Position position, Duration limit);

  Position at_ = 0;  // the training thread's own

  // The training thread writes the first and then reads the second, close() the reverse. Needs seq_cst: otherwise each
  // could miss the other's write.
  std::atomic<Position> next_ = 0;  // after the last reported one
  std::atomic<Position> last_ = kOpen;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string failure_;
};

// Where all ranks save.
struct SaveStop {
  SaveGate::Position at = 0;  // 0: nowhere, as a rank has given up waiting for the others
  bool ends = true;           // they leave after it: so they do only if all of them were asked to
};
// Tells the others where this rank would stop; called once by each rank.
void offer_stop(rendezvous::Client& store, const std::string& prefix, int rank, int world_size, SaveStop stop);
// At the latest position that any rank offered, at least kFirst, once all have. Empty if they have not within `limit`.
std::optional<SaveStop> agreed_stop(rendezvous::Client& store, const std::string& prefix, Duration limit);
// All ranks save nowhere, unless they have agreed meanwhile: returns what counts.
SaveStop give_up_stop(rendezvous::Client& store, const std::string& prefix);

}  // namespace ddprun
