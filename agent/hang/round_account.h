// Where the time of a round went on this node: told to the coordinator once, when the round ends here. While it runs,
// node rank 0 writes the job's progress to the event log each minute.
//
// For the thread of the io_context; hooks are called there.
#pragma once
#include <functional>
#include <optional>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/channel/channel_page.h"
#include "agent/hang/job_progress.h"
#include "agent/hang/round_meter.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class RoundAccount {
 public:
  struct Hooks {
    std::function<int()> workers;  // of the round, also those that have ended: their local ranks begin at 0
    std::function<Progress(int local_rank)> progress;
    std::function<std::optional<Duration>()> recent_step;
    std::function<bool(int round, const rendezvous::RoundSpent&)> tell;  // false: the coordinator is out of reach
    std::function<void(const JobProgress&)> on_progress;                 // empty: nobody reads it
  };
  RoundAccount(asio::io_context& io, Hooks hooks);

  // This node has a seat.
  void begin(const rendezvous::Seat& seat);
  // Its workers' pages are those of the round.
  void workers_start() { has_pages_ = true; }
  void workers_run(TimePoint now) { meter_.started(now); }
  void look();
  // Until now, or until it was closed; empty: there was no round yet.
  std::optional<rendezvous::RoundSpent> spent();
  // The round ends here, for whatever reason: what was spent; empty: it was closed before.
  std::optional<rendezvous::RoundSpent> close();
  bool closed() const { return spent_.has_value(); }
  // What was measured without contact is told with the next offer of the node. `again`: also what was told.
  void tell(bool again = false);

 private:
  rendezvous::RoundSpent measure();
  void write_progress();
  void await_progress();

  const Hooks hooks_;
  asio::steady_timer timer_;
  RoundMeter meter_;
  std::optional<rendezvous::Seat> seat_;
  std::optional<rendezvous::RoundSpent> spent_;  // of the round, if it was closed
  bool told_ = false;
  bool has_pages_ = false;
};

}  // namespace ddprun::agent
