// How people are told why a job ended: all nodes print the words of the one whose worker failed.
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

// For what a worker that died wrote last to come through its pipe.
constexpr std::chrono::milliseconds kLastWords{200};

class JobEnding {
 public:
  // `coordination`: the one in force; `alone`: the job has one node. All must outlive it.
  JobEnding(asio::io_context& io, Reporter& reporter, std::function<Coordination&()> coordination, bool alone);

  // The coordinator has ended the job; our workers may still run. The other nodes shall not wait for them to leave in
  // order to know why theirs have to.
  void begins(const rendezvous::Outcome& outcome);
  // Those of another node's failure, as the coordinator hands them on.
  void words_came(const std::string& words);
  // When no worker is left. `asked_to`: a signal to this node has ended it, as who sent that knows. Then calls `done`
  // with the report of a worker's failure, as it was printed; empty: there is none.
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
