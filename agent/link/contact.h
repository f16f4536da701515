// The agent's contact with its job's coordinator: what the agent does and reports without contact, and when it gives
// up.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "agent/link/coordination.h"
#include "agent/link/waiting_line.h"
#include "agent/logs/log_pipe.h"

namespace ddprun::agent {

struct ContactOptions {
  std::optional<Meeting> meeting;  // with other nodes; empty: the job has one
  Duration join_timeout, stop_grace;
  const char* endpoint_option = "--rdzv-endpoint";  // by which the user says where the nodes meet
};

class Contact {
 public:
  struct Hooks {
    std::function<void()> on_connected;  // send NodeReady or NodeBack
    std::function<void(const rendezvous::ToAgent&)> on_message;
    std::function<void()> on_isolated;                           // Isolated, agent/round/events.h
    std::function<void(const rendezvous::Outcome&)> on_job_end;  // here, without a coordinator
    std::function<void(const std::string& line, std::function<void(const std::string&)> answer)> on_request;
    std::function<bool()> has_workers;                       // of a round: they may still run
    std::function<bool()> awaits_workers;                    // the same, and not merely for the kernel to end them
    std::function<void(const std::string& why)> on_failure;  // the coordinator is out of reach: for our own log
    std::function<void(const std::string& host, const std::string& option)> only_here;  // Reporter::only_here
    std::function<void(const rendezvous::LedgerRecord&, const rendezvous::Outcome*)> on_ledger = {};  // any thread
    std::function<void(rendezvous::ReleasedPeer)> on_copies = {};  // Coordination::Hooks::on_copies
  };
  // Throws Error if a port cannot be bound or the credentials cannot be used.
  // `pipes` and `fence` (Coordination::Hooks::fence) must outlive it.
  Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, ContactOptions options, LogPipes& pipes,
          WorkerFence& fence, Hooks hooks);

  void start();
  Coordination& coordination() { return *coordination_; }
  const Coordination& coordination() const { return *coordination_; }
  void send(const rendezvous::FromAgent& message) { coordination_->send(message); }
  // The job waits for nodes; empty: a round runs without this node, which has so many workers to offer.
  void show_wait(const std::optional<rendezvous::Attendance>& attendance, int workers);
  void end_wait() { wait_.end(); }
  void on_seat();
  // A request to end ddprun came.
  void interrupted(int signal);
  int signal() const { return signal_; }  // 0: none came
  // Called when no worker is left and the round is over. False: there is no coordinator to send NodeReady to.
  bool rejoin();
  // Returns when all nodes know of the job's end. A coordinator that runs here tells the others the end and its cause.
  // `end_requested` may become true meanwhile.
  void leave(const bool& end_requested);

 private:
  std::unique_ptr<Coordination> make();
  void connected();
  void disconnected(const std::string& why, bool certain, TimePoint now);
  void abandon_job(const std::string& why);
  void rejoin_as_new_node();
  void send_signal();
  void warn_if_loopback();

  asio::io_context& io_;
  const rendezvous::RoundPolicy policy_;
  ContactOptions options_;
  LogPipes& pipes_;
  WorkerFence& fence_;
  const Hooks hooks_;
  WaitingLine wait_;
  TimePoint disconnected_since_ = Clock::now();  // since when no coordinator can be reached
  std::string job_over_reason_;      // why the job cannot continue here; this node checks whether it starts again
  bool rejoins_after_stop_ = false;  // its workers are still being ended
  bool warned_of_loopback_ = false;
  bool had_seat_ = false;
  int signal_ = 0;
  std::unique_ptr<Coordination> coordination_;
};

}  // namespace ddprun::agent
