// What a node does alike in both simulations: its agent's supervisor, contact to the coordinator, heartbeats, the job's
// end. A kind of node adds its connection, its workers, and how its clock and its loop differ from the simulation's.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "agent/round/supervisor.h"
#include "rendezvous/coordination/server/coordinator_liveness.h"
#include "rendezvous/coordination/wire/control_message.h"
#include "tests/simulation/network.h"

namespace ddprun::test {

using namespace rendezvous;

constexpr Duration kHeartbeatEvery = Duration(kLease) / 4;

// Throws std::logic_error. Called a million times a second: the message is built only if it does not hold.
void require(bool holds, const char* words);
void require(bool holds, const std::string& words);

std::string named(const RecordId& id);  // "round 3 of term 1"

class Transcript {
 public:
  explicit Transcript(const Network& net) : net_(net) {}
  void note(const std::string& line);
  const std::string& text() const { return text_; }

 private:
  const Network& net_;
  std::string text_;  // a line per event
};

class SimulatedNode {
 public:
  SimulatedNode(NodeId own, Network& its_net, Transcript& its_transcript)
      : id(own), net(its_net), transcript(its_transcript) {}
  virtual ~SimulatedNode() = default;

  bool is_present() const { return alive && !finished; }
  bool listens() const { return alive && !exited; }
  void note(const std::string& line) { transcript.note("node" + std::to_string(id) + ": " + line); }

  virtual TimePoint now() const { return net.now(); }  // by its clock
  virtual void after(Duration delay, const std::function<void()>& what) { net.after(delay, what); }
  void at_time(TimePoint when, const std::function<void()>& what);
  // Now, or when its loop goes on.
  virtual void on_loop(const std::function<void()>& what) { what(); }
  virtual void dispatch(const agent::Event& event);
  virtual void to_coordinator(const FromAgent& message) = 0;
  virtual void from_loop(const FromAgent& message) { to_coordinator(message); }

  const NodeId id;
  Network& net;
  Transcript& transcript;
  agent::Supervisor supervisor{{}};
  NodeOffer offer;
  std::set<int> running;                 // local ranks
  bool alive = true, exited = false;     // exited: its agent's process has ended
  bool finished = false;                 // it stays only for the others
  bool left = false;                     // it was asked to
  bool host_down = false;                // its host does not answer
  bool in_last_round = false;            // when the job's end was decided
  std::optional<Outcome> end;            // the job's, for all
  std::optional<Outcome> finished_with;  // its own
  // Its connection to the coordinator.
  Network::LinkId link = 0;
  int attempt = 0;  // counts attempts: messages in flight belong to one
  int turn = 0;     // index of the place to try
  bool welcome = false;
  RecordId newest;
  TimePoint heard_at, led_at;

 protected:
  void on_hello_sent() { heartbeats_sent_ = {{0, now()}}; }
  void on_contact(std::uint64_t answered, Duration age);
  virtual void take_contact(TimePoint then);
  void watch_lease();
  virtual void on_lease_over() = 0;
  // From a welcome on, as long as this attempt lasts.
  void schedule_heartbeat(int its_attempt);
  virtual Duration stood() const { return {}; }  // its loop
  virtual void on_stuck(int) {}
  Network::LinkId forget_link();

  // To the coordinator that it has come to: which workers it has, and whether it is asked to end.
  void report_back();
  virtual void send_signal() = 0;
  virtual void start(const Seat& seat) = 0;
  virtual void signal_workers(int signal) = 0;
  virtual void sweep(int round) { dispatch(agent::Swept{round}); }

  void on_job_end(const EndJob& message);
  void set_leave_deadline() { leave_deadline_ = std::min(leave_deadline_, now() + kLease + kLeaseMargin); }
  virtual void disconnect() = 0;
  virtual void on_finish(const Outcome&) {}
  virtual bool may_leave() const { return !end || all_notified_ || now() >= leave_deadline_; }
  void leave_when_notified(TimePoint at_last);
  virtual void leave() = 0;  // called once it is disconnected
  virtual bool may_exit() const = 0;
  void exit_when_left(TimePoint at_last);
  virtual void exit() = 0;

  std::optional<TimePoint> contact_;
  TimePoint lease_ends_ = {};
  std::uint64_t last_heartbeat_ = 0, answered_ = 0;
  std::map<std::uint64_t, TimePoint> heartbeats_sent_;
  bool all_notified_ = false;
  TimePoint leave_deadline_ = TimePoint::max();  // if there is no coordinator after the end
  std::optional<bool> progressed_;               // what it reports with a failure

 private:
  void execute(const agent::Action& action);
  void finish(const Outcome& outcome);

  std::deque<agent::Event> events_;  // queued while an action is carried out
  bool handling_ = false;
};

}  // namespace ddprun::test
