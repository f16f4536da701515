// The worker channels of one round on this node: progress, requests to save or leave, and early detection of deaths.
//
// Holds no policy. Workers that do not use their channel are unknown here.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/channel/channel_page.h"
#include "agent/channel/death_watch.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

class WorkerChannels {
 public:
  // `on_hint` is called from the loop with the local rank of a worker that may be dying, which dying_status() confirms,
  // or that has got a notice.
  WorkerChannels(asio::io_context& io, std::function<void(int)> on_hint);

  void begin(const std::set<int>& kept = {});  // forgets the previous round, but for the channels of these local ranks
  // Creates a worker's page. Returns the descriptor to pass as channel_number(), -1 if the kernel refuses one.
  int open(int local_rank, TimePoint now);
  void started(int local_rank);
  void all_started();  // from 100 ms on their deaths are detected early
  // --in-process: ChannelPage has these.
  bool may_park(int local_rank) const;
  bool is_parked(int local_rank) const;
  bool seat(int local_rank, const std::vector<std::string>& environment, TimePoint now);
  void ended(int local_rank);
  pid_t owner(int local_rank) const;  // ChannelPage::owner()

  // Whether the round has completed a step or a snapshot. Empty: no worker has reported anything.
  std::optional<bool> progressed(TimePoint now);
  // What this worker has reported; all empty if it is not known.
  Progress progress(int local_rank, TimePoint now);
  // The signal of a preemption's notice that the worker has got since the last call.
  std::optional<int> new_notice(int local_rank, TimePoint now);
  // All ranks save at the same step. Ranks may be one step apart, so it is the second next one.
  void request_save(TimePoint now);
  void request_leave();
  // As request_save(), but they go on.
  void request_snapshot(TimePoint now);
  // What would be lost if the workers ended now, by the worker that would lose most.
  struct Unsaved {
    bool known = true;              // false: some worker does not use its channel
    std::vector<int> unknown = {};  // these, by local rank
    std::uint64_t steps = 0;        // done in this round, and in no snapshot
    std::optional<std::uint64_t> snapshot_step = {};
    std::uint64_t first_step = 0;  // the round went on from here; known if no snapshot was written
    bool save_requested = false;
    bool saving = false;  // the requested snapshot was being written when the worker ended
  };
  // `saved`: local ranks whose exit codes say that they lose nothing; it counts for those that do not use their
  // channel. `program_uses_channel`: a worker that has not attached yet has done nothing. Called only if there is one.
  Unsaved unsaved(TimePoint now, const std::set<int>& saved, const std::function<bool()>& program_uses_channel);
  // Of workers whose program knows nothing of its channel, while none has told of a snapshot: the last step that one
  // has done, and after which of them one has written a file. Empty: there are no such workers, or no step.
  struct Unasked {
    std::uint64_t step = 0, steps_done = 0;
    std::optional<std::uint64_t> file_step = {};
  };
  std::optional<Unasked> unasked(TimePoint now);
  // Nothing of this job was saved, as far as the workers here tell: the next round begins again. Only of rank 0's node.
  bool nothing_saved(TimePoint now);
  bool all_finishing(TimePoint now);  // every worker has completed its work and is about to exit

 private:
  struct Channel {
    ChannelPage page;
    DeathWatch::Token token = 0;
    bool settled = false;  // watched, or ended
  };
  void watch_fresh();
  // The highest step that a worker has reported; empty: nobody has begun.
  std::optional<std::uint64_t> last_step(TimePoint now);
  std::uint64_t unsaved_steps(const Progress& progress) const;

  std::shared_ptr<std::function<void(DeathWatch::Token)>> on_token_;  // runs in the loop; emptied on our destruction
  DeathWatch watch_;
  asio::steady_timer watch_begins_;
  std::map<int, Channel> channels_;  // by local rank
  DeathWatch::Token last_token_ = 0;
  std::optional<TimePoint> save_requested_at_;
  std::uint64_t step_at_request_ = 0;  // the highest step reported then
};

}  // namespace ddprun::agent
