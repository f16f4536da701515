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

#include "agent/link/coordination.h"
#include "agent/tell/reporter.h"

namespace ddprun::agent {

// How long to wait for the last output of a worker that died to arrive through its pipe.
constexpr std::chrono::milliseconds kLastOutputWait{200};

class JobEnding {
 public:
  // `coordination`: the current one; `alone`: the job has one node. All must outlive it.
  JobEnding(asio::io_context& io, Reporter& reporter, std::function<Coordination&()> coordination, bool alone);

  // The coordinator has ended the job; our workers may still run. The report is sent without waiting for them, so that
  // other nodes learn early why theirs are stopped.
  void on_job_end(const rendezvous::Outcome& outcome);
  // The report of another node's failure, forwarded by the coordinator.
  void on_report(const std::string& report);
  // Call it when no worker is left. `by_signal`: a signal to this node ended the job, and its sender knows why. Calls
  // `done` with the report of a worker's failure, as printed; empty: no worker failed.
  void print_report(const rendezvous::Outcome& outcome, bool by_signal,
                    std::function<void(const std::string& report)> done);

 private:
  bool is_ours(const rendezvous::Outcome& outcome) const;
  void send_report(const rendezvous::Outcome& outcome);

  Reporter& reporter_;
  const std::function<Coordination&()> coordination_;
  const bool alone_;
  asio::steady_timer report_timer_;
  bool report_sent_ = false;  // of a failure here
  std::optional<std::string> report_;
};

}  // namespace ddprun::agent
