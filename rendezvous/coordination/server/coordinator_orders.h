// Passes messages and due deadlines to the Coordinator, and carries out its orders: sends them to the agents.
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
#include "rendezvous/coordination/server/coordinator_sessions.h"

namespace ddprun::rendezvous {

class CoordinatorOrders {
 public:
  struct Hooks {
    std::function<void()> on_hand_over;  // has to call end()
    std::function<void()> on_over;       // the job is over; after each message that is dispatched
    std::function<void(const LedgerRecord&, const Outcome*)> on_ledger = {};  // it has changed; null: the job goes on
    // With a record outside: another coordinator would need this now. A round begins once record_stored() says so.
    std::function<void(const Round&, const Outcome*)> on_record = {};
  };
  // `self`: the node whose agent runs the coordinator; empty: none.
  CoordinatorOrders(asio::io_context& io, CoordinatorSessions& sessions, const RoundPolicy& policy,
                    std::optional<NodeId> self, Hooks hooks);

  // Begins a coordinator in place of the previous one: the job's first one, or an elected one.
  void begin();
  void begin(const Succession& succession);
  void end();
  // Null: none has begun, or it has ended.
  const Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }

  // Does nothing if there is none.
  void dispatch(const Message& message);
  // Cached for a moment, so that a thousand nodes are not counted again for each of them.
  const std::optional<Attendance>& attendance();
  // Nodes without a round also need the record, to find an elected coordinator.
  void send_record_to_spare(NodeId node);
  // `in_charge`: the coordinator surely was, a moment ago.
  void record_stored(const RecordId& record, bool in_charge);
  bool waits_to_begin() const { return waits_ && stored_ == newest_; }
  // An address by which another host reached this one: rounds name it instead of loopback.
  void set_reached_by(std::string address) { reached_by_ = std::move(address); }
  // The newest round of the job that is coordinated here.
  const RecordId& newest() const { return newest_; }

 private:
  void start(const RecordId& newest);
  void report_ledger();
  void report_record();
  void begin_round(const Order& order);
  void schedule_decision();
  void execute(const Order& order);
  void form(Round round);
  void send_record_to_spares();
  void send_record_to_standbys();
  void confirm_record();
  void encode_record();
  void keep_range(const KeepRange& order);
  void name_this_host(std::string& host) const;

  CoordinatorSessions& sessions_;
  const RoundPolicy policy_;
  const std::optional<NodeId> self_;
  const Hooks hooks_;
  std::optional<Coordinator> coordinator_;
  asio::steady_timer decision_timer_;
  std::optional<TimePoint> decide_at_;
  std::optional<Attendance> attendance_;
  TimePoint attendance_known_at_;
  int ledger_changes_ = 0;
  RecordId newest_;
  std::vector<NodeId> round_;    // by group rank
  std::optional<Round> record_;  // its record; empty: no round yet
  std::string record_message_;   // the same, encoded
  std::string reached_by_;
  Round outside_;               // what is told by on_record
  RecordId stored_;             // that place has it
  std::optional<Order> waits_;  // StartRound or HandOver: for the record to be stored
  bool told_end_ = false;       // by on_record
};

}  // namespace ddprun::rendezvous
