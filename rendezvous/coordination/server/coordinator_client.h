// An agent's connection to the coordinator: connects and reconnects until its owner destroys it.
//
// If another agent names the coordinator's address, it goes there. The lease runs from the sending of our last
// heartbeat that the coordinator has acknowledged, so that both sides' clocks agree on the order in which leases end
// without being compared. After a reconnection it goes on when the owner has sent something: until then the coordinator
// does not know which workers are here, and may take them for dead. Each heartbeat says how long the agent's loop has
// stood; once that is the limit, the coordinator calls this node lost, and it comes back when its loop does.
//
// For the thread of its io_context. Handlers are never called inside a function of ours, nor after our destruction.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

#include "rendezvous/coordination/wire/control_link.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "rendezvous/peer/dialer.h"

namespace ddprun::rendezvous {

class CoordinatorClient {
 public:
  struct Options {
    std::vector<ControlAddress> places;  // tried in turn
    PeerTrust trust;
    Hello hello;
    std::shared_ptr<Resolver> names = {};       // empty: its own
    std::function<Duration()> loop_stood = {};  // Heartbeat::loop_stood; empty: the loop is ours
  };
  // Why there is no connection. `gone`: the coordinator no longer listens where it did.
  struct Failure {
    std::string why;  // "10.0.0.7:29400: connection refused"
    bool gone = false;
    RecordId known = {};  // the newest round that the agent there has seen; round 0: none, or no agent
  };
  struct Hooks {
    std::function<void(const Welcome&)> on_connected;
    std::function<void(const ToAgent&)> on_message;  // all but Welcome and Elsewhere
    std::function<void(const Elsewhere&)> on_elsewhere;
    // No contact to a quorum for a lease, or the agent's loop has stood for its limit: once, until connected.
    std::function<void()> on_isolated;
    std::function<void(const Failure&)> on_failure;  // an attempt or the connection failed
  };
  CoordinatorClient(asio::io_context& io, Options options, Hooks hooks);
  ~CoordinatorClient();

  // False, and nothing is sent, while there is no connection.
  bool send(const FromAgent& message);
  bool connected() const { return welcomed_; }
  // The agent's loop has stood for its limit: no connection is made, and the agent can neither lead nor give up.
  bool stuck() const { return loop_stood() >= loop_limit_; }
  // Closes the connection, and makes none for that long.
  void cut(Duration time);
  // The address by which we are connected; empty: not connected.
  std::string local_address() const;
  // When a coordinator was last heard from; no heartbeat of this agent acknowledges a later message.
  TimePoint heard_at() const { return heard_at_; }
  // Where the coordinator is, or was last.
  const std::optional<ControlAddress>& coordinator() const { return coordinator_; }
  // The coordinator is there now: leaves the place where it was.
  void connect_to(const ControlAddress& coordinator);
  // Instead of Options::places; there is at least one.
  void set_places(std::vector<ControlAddress> places) { options_.places = std::move(places); }
  // Another agent names this address. After several in a row, tries all other places first: two may name each other.
  void on_referral(const ControlAddress& coordinator);
  // Agents that may know where it is; tried after the job's places.
  void set_fallback_places(std::vector<ControlAddress> places) { fallback_places_ = std::move(places); }
  // For the next hello.
  void set_record(const RecordId& newest) { options_.hello.record = newest; }

 private:
  void send_hello(PeerConnection connection);
  void on_message(const std::string& bytes);
  void on_message(const ToAgent& message);
  void on_closed(const std::string& why);
  void try_again(const std::string& why, bool refused = false, const RecordId& known = {});
  void disconnect();
  void redirect_to(const ControlAddress& coordinator);
  ControlAddress place() const;
  std::size_t count_places() const;
  Duration loop_stood() const { return options_.loop_stood ? options_.loop_stood() : Duration::zero(); }
  void schedule_heartbeat();
  void isolate_stuck_agent();
  void watch_lease();
  void end_lease();
  template <class Function>
  auto guarded(Function function);

  asio::io_context& io_;
  Options options_;
  Hooks hooks_;
  Dialer dialer_;
  asio::steady_timer heartbeat_timer_, lease_timer_;
  std::unique_ptr<ControlLink> link_;
  std::size_t tries_ = 0;
  bool goes_back_ = false;                     // the next attempt is at the coordinator again
  std::optional<ControlAddress> coordinator_;  // tried before the places
  NodeId coordinator_id_ = 0;                  // 0: not known
  std::vector<ControlAddress> fallback_places_;
  Duration pause_;     // before the next attempt
  int referrals_ = 0;  // in a row
  bool welcomed_ = false;
  TimePoint cut_until_ = {};
  Duration lease_ = {}, loop_limit_ = Duration::max();
  TimePoint heard_at_ = {};
  std::optional<TimePoint> contact_;  // when we sent the last heartbeat that was acknowledged
  bool spoken_ = false;               // the owner has sent something by this connection, or no lease was running
  TimePoint unspoken_contact_ = {};   // contact_ once it has
  std::uint64_t last_heartbeat_ = 0, last_answer_ = 0;
  std::vector<std::pair<std::uint64_t, TimePoint>> unanswered_;
  std::shared_ptr<const int> alive_ = std::make_shared<int>();  // expired for handlers still queued at destruction
};

}  // namespace ddprun::rendezvous
