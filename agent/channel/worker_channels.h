// The worker channels of one round on this node: progress, requests to save or leave, and early detection of deaths.
//
// Holds no policy. Workers that do not use their channel are unknown here.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include <asio/io_context.hpp>

#include "agent/channel/channel_page.h"
#include "agent/channel/death_watch.h"
#include "rendezvous/base/time.h"

namespace ddprun::agent {

class WorkerChannels {
 public:
  // `on_hint` is called from the loop with the local rank of a worker that may be dying: dying_status() confirms it.
  WorkerChannels(asio::io_context& io, std::function<void(int)> on_hint);

  void begin();  // forgets the previous round
  // Creates a worker's page. Returns the descriptor to pass as channel_number(), -1 if the kernel refuses one.
  int open(int local_rank, TimePoint now);
  void started(int local_rank);
  void ended(int local_rank);

  // Whether the round has completed a step or a snapshot. Empty: no worker has reported anything.
  std::optional<bool> progressed(TimePoint now);
  // All ranks save at the same step. Ranks may be one step apart, so it is the second next one.
  void ask_to_save(TimePoint now);
  void ask_to_leave();
  // Every worker's snapshot was made for ask_to_save(), or holds its last step.
  bool all_saved(TimePoint now);
  bool all_finishing(TimePoint now);  // every worker has completed its work and is about to exit

 private:
  struct Channel {
    ChannelPage page;
    DeathWatch::Token token = 0;
  };

  std::shared_ptr<std::function<void(DeathWatch::Token)>> on_news_;  // runs in the loop; emptied on our destruction
  DeathWatch watch_;
  std::map<int, Channel> channels_;  // by local rank
  DeathWatch::Token last_token_ = 0;
  std::optional<TimePoint> asked_to_save_;
  std::uint64_t step_when_asked_ = 0;  // the highest step reported then
};

}  // namespace ddprun::agent
