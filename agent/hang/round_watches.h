// All that looks at a round's workers here while they run: for hangs, stragglers, rules and metrics of their output,
// and where their time goes.
//
// For the thread of the io_context.
#pragma once
#include <memory>
#include <optional>
#include <utility>

#include <asio/io_context.hpp>

#include "agent/hang/pace_watch.h"
#include "agent/hang/round_account.h"
#include "agent/hang/use_watch.h"
#include "agent/hang/worker_watch.h"
#include "agent/logs/round_output.h"

namespace ddprun::agent {

class RoundWatches {
 public:
  struct Options {
    HangLimits hang_limits = {};
    bool stragglers = true;
    std::shared_ptr<OutputMonitor> monitor = {};
  };
  struct Hooks {
    WorkersSeen workers;
    WorkerWatch::Hooks hangs;
    PaceWatch::Hooks pace;
    UseWatch::Hooks use;
    RoundAccount::Hooks account;
    RoundOutput::Hooks output;
  };
  RoundWatches(asio::io_context& io, Options options, Hooks hooks)
      : hangs_(io, options.hang_limits, hooks.workers, std::move(hooks.hangs)),
        pace_(io, options.stragglers, hooks.workers, std::move(hooks.pace)),
        use_(io, std::move(hooks.workers), std::move(hooks.use)),
        account_(io, std::move(hooks.account)),
        output_(io, std::move(options.monitor), std::move(hooks.output)) {}

  // Its workers are about to be started.
  void begin_round(const rendezvous::Seat& seat) {
    account_.workers_start();
    hangs_.begin_round(seat);
    output_.begin_round(seat.round, seat.first_rank == 0);
  }
  // All of them have been.
  void workers_run(const rendezvous::Seat& seat, TimePoint now) {
    account_.workers_run(now);
    output_.watch();
    hangs_.workers_run(seat);
    pace_.begin_round(seat.group_world_size);
    use_.begin_round();
  }

  WorkerWatch& hangs() { return hangs_; }
  const UseWatch& use() const { return use_; }
  RoundAccount& account() { return account_; }
  RoundOutput& output() { return output_; }

 private:
  WorkerWatch hangs_;
  PaceWatch pace_;
  UseWatch use_;
  RoundAccount account_;
  RoundOutput output_;
};

}  // namespace ddprun::agent
