#include "tests/simulation/cluster.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

#include "rendezvous/overloaded.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLease = 5s, kFence = kLease + 1s;
constexpr int kTroubleMs = 300'000;

void invariant(bool holds, const std::string& words) {
  if (!holds) throw std::logic_error("broken: " + words);
}

RoundPolicy policy_of(const ClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .fixed_ranks = options.fixed_ranks,
          .restarts = {.max_restarts = options.max_restarts}};
}

std::string name(NodeId id) { return "node" + std::to_string(id); }

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), random_(options.seed), coordinator_(policy_of(options), TimePoint{}, options.seed) {
  for (int i = 0; i < options.agents; ++i) {
    const NodeId id = add_node(milliseconds(60'000));
    if (options.fixed_ranks) node(id).offer.wished_rank = i;
  }
  plan_troubles();
}

NodeId Cluster::add_node(Duration when) {
  const NodeId id = nodes_.size() + 1;
  NodeOffer offer{.workers = 1 + static_cast<int>(random_() % static_cast<unsigned>(options_.workers_max)),
                  .host = name(id),
                  .port = 1000};
  nodes_.emplace(id, Node{Supervisor({}), offer, 0, {}, {}, true, false, false, 0, false, true, 0, {}, {}});
  after(when, [this, id] { connect(id); });
  return id;
}

void Cluster::plan_troubles() {
  if (chance(options_.interrupt))
    after(milliseconds(600'000), [this] {
      const auto all = living();
      if (!all.empty()) signal(all[random_() % all.size()], SIGINT);
    });
  for (int i = 0; i < options_.kills; ++i) some_time(&Cluster::kill_agent);
  for (int i = 0; i < options_.cuts; ++i) some_time(&Cluster::cut);
  for (int i = 0; i < options_.leaves; ++i) some_time(&Cluster::leave);
  for (int i = 0; i < options_.joins; ++i) add_node(milliseconds(kTroubleMs));
}

void Cluster::some_time(void (Cluster::*trouble)(NodeId)) {
  after(milliseconds(kTroubleMs), [this, trouble] {
    const auto all = living();
    if (!all.empty()) (this->*trouble)(all[random_() % all.size()]);
  });
}

void Cluster::run() {
  for (int events = 0; !future_.empty(); ++events) {
    invariant(events < 20'000'000, "the job comes to an end");
    const Happening next = future_.top();
    future_.pop();
    now_ = next.when;
    next.what();
  }
  for (const auto& [id, node] : nodes_) {
    invariant(node.finished || !node.alive, "every agent finishes, " + name(id) + " too");
    invariant(node.running.empty(), "no worker is left at the end");
  }
}

void Cluster::after(Duration delay, std::function<void()> what) {
  future_.push({now_ + delay, order_++, std::move(what)});
}

Duration Cluster::milliseconds(int max) { return std::chrono::milliseconds(random_() % static_cast<unsigned>(max)); }

bool Cluster::chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

void Cluster::note(const std::string& line) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now_.time_since_epoch()).count();
  transcript_ += std::to_string(ms) + " ms  " + line + "\n";
}

std::vector<NodeId> Cluster::living() const {
  std::vector<NodeId> out;
  for (const auto& [id, node] : nodes_)
    if (node.alive && !node.finished) out.push_back(id);
  return out;
}

// The other end learns of it at once, and soon that nobody listens there any more.
void Cluster::kill_agent(NodeId id) {
  note(name(id) + ": its agent is killed");
  Node& victim = node(id);
  victim.alive = false;
  const int round = victim.round;
  after(milliseconds(20), [this, id, round] {  // its keeper's work
    if (node(id).round == round) node(id).running.clear();
  });
  if (victim.reachable) find_closed(id);
}

void Cluster::find_closed(NodeId id) {
  if (!node(id).connected) return;
  disconnect(id, now_ + kFence, "its connection was closed");
  after(20ms + milliseconds(200), [this, id] { coordinate(NodeGone{id}); });
}

// Both sides wait for a lease; one that is out of reach for less time only sees its messages late.
void Cluster::cut(NodeId id) {
  Node& victim = node(id);
  if (!victim.reachable) return;
  const Duration length = milliseconds(20'000);
  note(name(id) + ": out of reach");
  victim.reachable = false;
  victim.last_up = std::max(victim.last_up, now_ + length);
  victim.last_down = std::max(victim.last_down, now_ + length);
  if (length > kLease && victim.connected) {
    after(kLease, [this, id, connection = victim.connection] {
      Node& lost = node(id);
      if (lost.connection != connection) return;
      disconnect(id, now_ + 1s, "nothing was heard for 5 s");
      // What the node heard last came later than what was heard of it.
      if (options_.lease) after(milliseconds(900), [this, id] { happen(id, Isolated{}); });
    });
  }
  after(length, [this, id] {
    note(name(id) + ": in reach again");
    node(id).reachable = true;
    if (!node(id).alive) return find_closed(id);
    connect(id);
  });
}

void Cluster::leave(NodeId id) {
  note(name(id) + ": SIGTERM");
  node(id).left = true;
  signal(id, SIGTERM);
}

void Cluster::signal(NodeId id, int signal) {
  node(id).signal = signal;
  happen(id, Signalled{signal});
}

// Whoever comes back says so again.
void Cluster::tell_of_signal(NodeId id) {
  const int signal = node(id).signal;
  if (signal == SIGINT) to_coordinator(id, JobInterrupted{id, signal});
  if (signal == SIGTERM) to_coordinator(id, NodeLeaves{id, signal});
}

void Cluster::connect(NodeId id) {
  Node& self = node(id);
  if (!self.alive || self.finished || self.connected || !self.reachable) return;
  ++self.connection;
  self.connected = true;
  self.last_up = self.last_down = now_;
  if (const auto round = self.supervisor.round_with_workers())
    to_coordinator(id, NodeBack{id, *round, self.offer});
  else
    to_coordinator(id, NodeReady{id, self.offer});
  tell_of_signal(id);
}

void Cluster::disconnect(NodeId id, TimePoint workers_until, const std::string& how) {
  Node& self = node(id);
  self.connected = false;
  ++self.connection;  // what is on its way is lost
  after(milliseconds(5), [this, id, workers_until, how] {
    coordinate(NodeLost{id, options_.fence ? workers_until : now_, how});
  });
}

void Cluster::to_coordinator(NodeId id, const Message& message) {
  Node& self = node(id);
  if (!self.connected) return;
  self.last_up = std::max(self.last_up, now_ + milliseconds(20));
  after(self.last_up - now_, [this, id, message, connection = self.connection] {
    if (node(id).connection == connection) coordinate(message);
  });
}

void Cluster::coordinate(const Message& message) {
  for (const Order& order : coordinator_.on(message, now_)) obey(order);
  plan_coordinator_tick();
}

void Cluster::to_node(NodeId id, const Event& event) {
  Node& to = node(id);
  if (!to.connected) return;
  to.last_down = std::max(to.last_down, now_ + milliseconds(20));
  after(to.last_down - now_, [this, id, event, connection = to.connection] {
    if (node(id).connection == connection) happen(id, event);
  });
}

void Cluster::to_round(const Event& event) {
  for (const RoundNode& member : round_.nodes) to_node(member.id, event);
}

void Cluster::to_all(const Event& event) {
  for (const auto& [id, node] : nodes_) to_node(id, event);
}

void Cluster::obey(const Order& order) {
  std::visit(overloaded{
                 [&](const FormRound& o) { form(o.round); },
                 [&](const StartRound& o) {
                   note("round " + std::to_string(o.round) + " starts");
                   to_round(RoundStarted{o.round});
                 },
                 [&](const EndRound& o) {
                   note("round " + std::to_string(o.round) + " ends: " + o.reason);
                   to_round(RoundEnded{o.round, o.planned});
                 },
                 [&](const EndJob& o) {
                   note("the job ends: " + o.outcome.reason);
                   to_all(JobEnded{o.outcome});
                 },
                 [&](const Recall& o) { to_node(o.node, RoundEnded{o.round}); },
                 [&](const Dismiss& o) {
                   note(name(o.node) + " is dismissed: " + o.outcome.reason);
                   to_node(o.node, JobEnded{o.outcome});
                 },
             },
             order);
}

void Cluster::form(const Round& round) {
  note("round " + std::to_string(round.number) + " forms of " + std::to_string(round.nodes.size()) + " nodes");
  invariant(round.number == ++rounds_, "round numbers grow by one");
  invariant(round.charged.spent() <= options_.max_restarts, "never more restarts than allowed");
  const int nodes = static_cast<int>(round.nodes.size());
  invariant(nodes >= options_.nodes_min && nodes <= options_.nodes_max, "no round has too few nodes or too many");
  std::set<NodeId> seen;
  int rank = 0;
  for (const RoundNode& member : round.nodes) {
    invariant(seen.insert(member.id).second && member.first_rank == rank, "every rank is held once");
    rank += member.workers;
  }
  round_ = round;
  charged_ = round.charged;
  failing_node_ = chance(options_.failure) ? round.nodes[random_() % round.nodes.size()].id : 0;
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) to_node(round.nodes[i].id, RoundFormed{all[i]});
}

void Cluster::happen(NodeId id, const Event& event) {
  Node& self = node(id);
  if (!self.alive) return;
  self.events.push_back(event);
  if (std::exchange(self.handling, true)) return;
  for (; !self.events.empty(); self.events.pop_front())
    for (const Action& action : self.supervisor.on(self.events.front(), now_)) carry_out(id, action);
  self.handling = false;
  plan_tick(id);
}

void Cluster::carry_out(NodeId id, const Action& action) {
  Node& self = node(id);
  invariant(!self.finished, "nothing is done after Finish");
  std::visit(
      overloaded{
          [&](const ConfirmRound& a) {
            to_coordinator(id, NodeConfirmed{id, a.round});
          },
          [&](const StartWorkers& a) { start(id, a.seat); },
          [&](const SignalWorkers& a) { signal_workers(id, a.signal); },
          [&](const SweepLeftovers&) { invariant(self.running.empty(), "a round is swept when its workers are gone"); },
          [&](const ReportRunning& a) {
            to_coordinator(id, NodeRunning{id, a.round});
          },
          [&](const ReportDone& a) {
            to_coordinator(id, NodeDone{id, a.round});
          },
          [&](const ReportFailure& a) {
            note(name(id) + ": a worker fails");
            to_coordinator(id, WorkerFailed{{a.round, id, a.local_rank, 0, a.status}});
          },
          [&](const ReportInterrupted&) { tell_of_signal(id); },
          [&](const Rejoin&) {
            to_coordinator(id, NodeReady{id, self.offer});
          },
          [&](const Finish& a) {
            invariant(self.running.empty(), "an agent that finishes has no workers");
            self.finished = true;
            if (!self.left && a.outcome.verdict != Verdict::refused) outcomes_.push_back(a.outcome);
          },
          [](const auto&) {},
      },
      action);
}

void Cluster::signal_workers(NodeId id, int signal) {
  const Node& self = node(id);
  for (const int rank : self.running) {
    if (signal != SIGKILL && self.deaf.contains(rank)) continue;
    after(signal == SIGKILL ? milliseconds(20) : milliseconds(500),
          [this, id, round = self.round, rank, signal] { end_worker(id, round, rank, {.signal = signal}); });
  }
}

void Cluster::start(NodeId id, const Seat& seat) {
  Node& self = node(id);
  invariant(self.running.empty(), "no local rank is started twice");
  hold_invariants(seat.round);
  self.round = seat.round;
  self.deaf.clear();
  for (int rank = 0; rank < seat.workers; ++rank) {
    self.running.insert(rank);
    if (chance(options_.deaf)) self.deaf.insert(rank);
    happen(id, WorkerStarted{seat.round, rank});
    ExitStatus status;
    if (id == failing_node_ && rank == 0) status = chance(0.5) ? ExitStatus{.signal = SIGKILL} : ExitStatus{.code = 1};
    after(30s + milliseconds(60'000),
          [this, id, number = seat.round, rank, status] { end_worker(id, number, rank, status); });
  }
}

void Cluster::end_worker(NodeId id, int round, int local_rank, const ExitStatus& status) {
  Node& self = node(id);
  if (self.round != round || !self.running.erase(local_rank)) return;  // it had ended before
  happen(id, WorkerExited{round, local_rank, status});
}

void Cluster::plan_coordinator_tick() {
  if (const auto deadline = coordinator_.next_deadline())
    after(std::max(*deadline - now_, Duration::zero()), [this, due = *deadline] {
      if (coordinator_.next_deadline() == due) coordinate(CoordinatorTick{});
    });
}

void Cluster::plan_tick(NodeId id) {
  if (const auto deadline = node(id).supervisor.next_deadline())
    after(std::max(*deadline - now_, Duration::zero()), [this, id, due = *deadline] {
      if (node(id).supervisor.next_deadline() == due) happen(id, Tick{});
    });
}

// Ranks are decided once per round, so no rank is held twice while all that runs belongs to one round.
void Cluster::hold_invariants(int starting) const {
  for (const auto& [id, node] : nodes_)
    invariant(node.running.empty() || node.round == starting,
              "no worker of an older round runs when a new one starts, on " + name(id));
}

}  // namespace ddprun::test
