// Keeps the job's history for those who look at it later: a sample of this node's ranks every two seconds, and what it
// is told of rounds and stragglers. Nobody else is asked for it.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <nlohmann/json_fwd.hpp>

#include "agent/status/job_history.h"
#include "agent/status/job_summary.h"
#include "rendezvous/base/time.h"
#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/round/round.h"

namespace ddprun::agent {

class HistoryKeeper {
 public:
  struct Hooks {
    std::function<rendezvous::NodeReport()> own_report;
    std::function<bool()> is_looked_at;  // by a page, which notes the whole job's status
  };
  HistoryKeeper(asio::io_context& io, Hooks hooks) : hooks_(std::move(hooks)), timer_(io) {}

  void round_formed(const rendezvous::Seat& seat);
  void workers_run();
  void round_ended(const rendezvous::EndRound& end);
  void straggler_found(const std::string& text);
  void job_ended();
  // The whole job's status, by those who have asked for it.
  void note(const nlohmann::json& status);

  const JobHistory& history() const { return history_; }
  std::optional<LastFailure> last_failure() const;
  bool several_nodes() const { return several_nodes_; }
  Duration run_time() const { return Clock::now() - began_; }

 private:
  void watch();

  const Hooks hooks_;
  asio::steady_timer timer_;
  JobHistory history_;
  const TimePoint began_ = Clock::now();
  bool several_nodes_ = false, watches_ = false, ended_ = false;
  int world_size_ = 0;  // of the last round
};

// That never goes back while we run.
UnixTime unix_time();

}  // namespace ddprun::agent
