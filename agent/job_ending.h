// Tells the user why a job ended: all nodes print the report of the node whose worker failed.
//
// For the thread of the io_context.
#pragma once
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "agent/coordination.h"
#include "agent/reporter.h"

namespace ddprun::agent {

// How long to wait for the last output of a worker that died to arrive through its pipe.
constexpr std::chrono::milliseconds kLastWords{200};

class JobEnding {
 public:
  // `coordination`: the current one; `alone`: the job has one node. All must outlive it.
  JobEnding(asio::io_context& io, Reporter& reporter, std::function<Coordination&()> coordination, bool alone);

  // The coordinator has ended the job; our workers may still run. The report is sent without waiting for them, so that
  // other nodes learn early why theirs are stopped.
  void begins(const rendezvous::Outcome& outcome);
  // The report of another node's failure, forwarded by the coordinator.
  void words_came(const std::string& words);
  // Call it when no worker is left. `asked_to`: a signal to this node ended the job, and its sender knows why. Calls
  // `done` with the report of a worker's failure, as printed; empty: no worker failed.
  void tell(const rendezvous::Outcome& outcome, bool asked_to, std::function<void(const std::string& report)> done);

 private:
  bool is_ours(const rendezvous::Outcome& outcome) const;
  void send_words(const rendezvous::Outcome& outcome);

  Reporter& reporter_;
  const std::function<Coordination&()> coordination_;
  const bool alone_;
  asio::steady_timer words_due_;
  bool words_sent_ = false;  // of a failure here
  std::optional<std::string> words_;
};

}  // namespace ddprun::agent
