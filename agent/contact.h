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
    std::function<void()> on_connected;  // send NodeReady or NodeBack
    std::function<void(const rendezvous::ToAgent&)> on_message;
    std::function<void(const Event&)> dispatch;
  };
  // Where it reports, and the state it reads. All must outlive it.
  struct Surroundings {
    const AgentOptions& options;
    const Supervisor& supervisor;
    LogPipes& pipes;
    Reporter& reporter;
    OwnLog& log;
  };
  // Throws Error if a port cannot be bound or the credentials cannot be used.
  Contact(asio::io_context& io, const rendezvous::RoundPolicy& policy, Surroundings surroundings, Hooks hooks);

  void start();
  Coordination& coordination() { return *coordination_; }
  const Coordination& coordination() const { return *coordination_; }
  void send(const rendezvous::FromAgent& message) { coordination_->send(message); }
  // The job waits for nodes; empty: a round runs without this node.
  void tell_of_wait(const std::optional<rendezvous::Attendance>& attendance);
  void wait_is_over() { wait_.over(); }
  void took_seat();
  // A request to end ddprun came.
  void interrupted(int signal);
  int signal() const { return signal_; }  // 0: none came
  // Called when no worker is left and the round is over. False: there is no coordinator to send NodeReady to.
  bool rejoins();
  // Returns when all nodes know of the job's end. A coordinator that runs here tells the others the end and its cause.
  // `hurried` may become true meanwhile.
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
  TimePoint alone_since_ = Clock::now();  // since when no coordinator can be reached
  std::string job_is_over_;               // why the job cannot continue here; this node checks whether it starts again
  bool gives_up_ = false;                 // its workers are still being ended
  bool warned_where_alone_ = false;
  bool had_seat_ = false;
  int signal_ = 0;
  std::unique_ptr<Coordination> coordination_;
};

}  // namespace ddprun::agent
