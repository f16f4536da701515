// The agent's contact with its job's coordinator: what is done and told while there is none, and when there is none any
// more.
//
// For the thread of the io_context.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <asio/io_context.hpp>

#include "agent/agent_options.h"
#include "agent/coordination.h"
#include "agent/events.h"
#include "agent/logs/log_pipe.h"
#include "agent/logs/own_log.h"
#include "agent/reporter.h"
#include "agent/supervisor.h"
#include "agent/waiting_line.h"

namespace ddprun::agent {

class Contact {
 public:
  struct Hooks {
    std::function<void()> on_connected;  // say what there is here
    std::function<void(const rendezvous::ToAgent&)> on_message;
    std::function<void(const Event&)> dispatch;
  };
  // What it tells by, and whom it asks what there is here. All must outlive it.
  struct Surroundings {
    const AgentOptions& options;
    const Supervisor& supervisor;
    LogPipes& pipes;
    Reporter& reporter;
    OwnLog& log;
  };
  // Throws Error where a port cannot be had or the credentials cannot be used.
  Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, Surroundings surroundings, Hooks hooks);

  void start();
  Coordination& coordination() { return *coordination_; }
  const Coordination& coordination() const { return *coordination_; }
  void send(const rendezvous::FromAgent& message) { coordination_->send(message); }
  // The job waits for nodes; nothing: a round runs, without this one.
  void tell_of_wait(const std::optional<rendezvous::Attendance>& attendance);
  void wait_is_over() { wait_.over(); }
  void took_seat();
  // Somebody wants ddprun to end.
  void interrupted(int signal);
  int signal() const { return signal_; }  // 0: nobody does
  // No worker is left and the round is over; false: there is no coordinator to be ready for.
  bool rejoins();
  // Until all know of the end. Where the coordinator runs here, the others are told by it, and of why. `hurried` may
  // become true meanwhile.
  void leave(const bool& hurried);

 private:
  std::unique_ptr<Coordination> make();
  void connected();
  void disconnected(const std::string& why, bool certain);
  void begin_anew(const std::string& why);
  void meet_anew();
  void tell_of_signal();
  void warn_where_alone();

  asio::io_context& io_;
  const rendezvous::RoundPolicy policy_;
  const Surroundings around_;
  const Hooks hooks_;
  std::optional<Meeting> meeting_;  // with other nodes
  WaitingLine wait_;
  TimePoint alone_since_ = Clock::now();  // no coordinator in reach
  std::string job_is_over_;               // why the job cannot go on here; this node looks whether it begins anew
  bool gives_up_ = false;                 // it still ends its workers
  bool warned_where_alone_ = false;
  bool had_seat_ = false;
  int signal_ = 0;
  std::unique_ptr<Coordination> coordination_;
};

}  // namespace ddprun::agent
