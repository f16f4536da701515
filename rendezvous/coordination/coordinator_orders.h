// Lets the Coordinator decide, also when a deadline comes, and carries out its orders: tells the agents.
//
// For the thread of the io_context, which the sessions share.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/coordinator.h"
#include "rendezvous/coordination/coordinator_sessions.h"

namespace ddprun::rendezvous {

class CoordinatorOrders {
 public:
  struct Hooks {
    std::function<void()> on_hand_over;  // has to end() it
    std::function<void()> on_over;       // the job is: after each message that is dispatched
  };
  // `self`: the node of the agent that the coordinator lives in; empty: of none.
  CoordinatorOrders(asio::io_context& io, CoordinatorSessions& sessions, const RoundPolicy& policy,
                    std::optional<NodeId> self, Hooks hooks);

  // A coordinator begins, in place of the one before: the job's first one, or one that was elected.
  void begin();
  void begin(const Succession& succession);
  void end();
  // Null: none has begun, or it has ended.
  const Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }

  // Nothing where there is none.
  void dispatch(const Message& message);
  // At most so old that the count of a thousand nodes is not made anew for each of them.
  const std::optional<Attendance>& attendance();
  // Who is in no round yet has to find whoever is elected, too.
  void send_record_to_spare(NodeId node);
  // An address of this host by which another one reached it: what rounds name instead of loopback.
  void set_reached_by(std::string address) { reached_by_ = std::move(address); }
  // The newest round of what is led.
  const RecordId& newest() const { return newest_; }

 private:
  void start(const RecordId& newest);
  void decide_in_time();
  void execute(const Order& order);
  void form(Round round);
  void name_this_host(std::string& host) const;

  CoordinatorSessions& sessions_;
  const RoundPolicy policy_;
  const std::optional<NodeId> self_;
  const Hooks hooks_;
  std::optional<Coordinator> coordinator_;
  asio::steady_timer decision_;
  std::optional<TimePoint> decide_at_;
  std::optional<Attendance> attendance_;
  TimePoint attendance_known_at_;
  RecordId newest_;
  std::vector<NodeId> round_;  // by group rank
  std::string record_;         // of it, as it is told; empty: there was none
  std::string reached_by_;
};

}  // namespace ddprun::rendezvous
