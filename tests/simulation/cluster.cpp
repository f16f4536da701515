#include "tests/simulation/cluster.h"

#include <csignal>
#include <stdexcept>
#include <string>

#include "rendezvous/overloaded.h"

namespace ddprun::test {
namespace {

void invariant(bool holds, const std::string& words) {
  if (!holds) throw std::logic_error("broken: " + words);
}

RoundPolicy policy_of(const ClusterOptions& options) {
  return {options.agents, {.max_restarts = options.max_restarts}};
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), random_(options.seed), coordinator_(policy_of(options), options.seed) {
  for (int i = 0; i < options.agents; ++i) {
    nodes_.push_back(
        Node{Supervisor(i, {}), 1 + static_cast<int>(random_() % options.workers_max), 0, {}, {}, false, {}, {}});
    const NodeReady ready{i, {nodes_.back().workers, "host", static_cast<std::uint16_t>(1000 + i)}};
    after(milliseconds(60'000), [this, i, ready] { to_coordinator(i, ready); });
  }
  if (chance(options.interrupt)) {
    const int node = static_cast<int>(random_() % nodes_.size());
    after(milliseconds(600'000), [this, node] { happen(node, Signalled{SIGINT}); });
  }
}

void Cluster::run() {
  for (int events = 0; !future_.empty(); ++events) {
    invariant(events < 10'000'000, "the job comes to an end");
    const Happening next = future_.top();
    future_.pop();
    now_ = next.when;
    next.what();
  }
  for (const Node& node : nodes_) {
    invariant(node.finished, "every agent finishes");
    invariant(node.running.empty(), "no worker is left at the end");
  }
}

void Cluster::after(Duration delay, std::function<void()> what) {
  future_.push({now_ + delay, order_++, std::move(what)});
}

Duration Cluster::milliseconds(int max) { return std::chrono::milliseconds(random_() % static_cast<unsigned>(max)); }

bool Cluster::chance(double probability) { return std::uniform_real_distribution<>()(random_) < probability; }

void Cluster::to_coordinator(int node, const Message& message) {
  TimePoint& last = nodes_[node].last_up;
  last = std::max(last, now_ + milliseconds(20));
  after(last - now_, [this, message] {
    for (const Order& order : coordinator_.on(message, now_)) obey(order);
    plan_coordinator_tick();
  });
}

void Cluster::to_node(int node, const Event& event) {
  TimePoint& last = nodes_[node].last_down;
  last = std::max(last, now_ + milliseconds(20));
  after(last - now_, [this, node, event] { happen(node, event); });
}

void Cluster::obey(const Order& order) {
  const auto to_all = [&](const Event& event) {
    for (std::size_t i = 0; i < nodes_.size(); ++i) to_node(static_cast<int>(i), event);
  };
  std::visit(overloaded{
                 [&](const FormRound& o) {
                   invariant(o.round.number == ++rounds_, "round numbers grow by one");
                   invariant(o.round.restarts <= options_.max_restarts, "never more restarts than allowed");
                   restarts_ = o.round.restarts;
                   failing_node_ = chance(options_.failure) ? static_cast<int>(random_() % nodes_.size()) : -1;
                   to_all(RoundFormed{o.round});
                 },
                 [&](const EndRound& o) { to_all(RoundEnded{o.round}); },
                 [&](const EndJob& o) { to_all(JobEnded{o.outcome}); },
             },
             order);
}

void Cluster::happen(int node, const Event& event) {
  for (const Action& action : nodes_[node].supervisor.on(event, now_)) carry_out(node, action);
  plan_tick(node);
}

void Cluster::carry_out(int id, const Action& action) {
  Node& node = nodes_[id];
  invariant(!node.finished, "nothing is done after Finish");
  std::visit(
      overloaded{
          [&](const StartWorkers& a) { start(id, a.round); },
          [&](const SignalWorkers& a) {
            for (const int rank : node.running)
              if (a.signal == SIGKILL || !node.deaf.count(rank))
                after(milliseconds(500), [this, id, round = node.round, rank, signal = a.signal] {
                  end_worker(id, round, rank, {.signal = signal});
                });
          },
          [](const AskToSave&) {},
          [](const AskToLeave&) {},
          [](const AnnounceWait&) {},
          [&](const SweepLeftovers&) { invariant(node.running.empty(), "a round is swept when its workers are gone"); },
          [&](const ReportRunning& a) {
            to_coordinator(id, NodeRunning{id, a.round});
          },
          [&](const ReportDone& a) {
            to_coordinator(id, NodeDone{id, a.round});
          },
          [&](const ReportFailure& a) {
            to_coordinator(id, WorkerFailed{{a.round, id, a.local_rank, 0, a.status}});
          },
          [&](const ReportInterrupted& a) {
            to_coordinator(id, NodeInterrupted{id, a.signal});
          },
          [&](const Rejoin&) {
            to_coordinator(id, NodeReady{id, {node.workers, "host", 1}});
          },
          [&](const Finish& a) {
            invariant(node.running.empty(), "an agent that finishes has no workers");
            node.finished = true;
            outcomes_.push_back(a.outcome);
          },
      },
      action);
}

void Cluster::start(int id, const Round& round) {
  Node& node = nodes_[id];
  invariant(node.running.empty(), "no local rank is started twice");
  node.round = round.number;
  node.deaf.clear();
  for (int rank = 0; rank < node.workers; ++rank) {
    node.running.insert(rank);
    if (chance(options_.deaf)) node.deaf.insert(rank);
    after({}, [this, id, number = round.number, rank] { happen(id, WorkerStarted{number, rank}); });
    ExitStatus status;
    if (id == failing_node_ && rank == 0) status = chance(0.5) ? ExitStatus{.signal = SIGKILL} : ExitStatus{.code = 1};
    after(std::chrono::seconds(30) + milliseconds(60'000),
          [this, id, number = round.number, rank, status] { end_worker(id, number, rank, status); });
  }
  hold_invariants();
}

void Cluster::end_worker(int id, int round, int local_rank, const ExitStatus& status) {
  Node& node = nodes_[id];
  if (node.round != round || !node.running.erase(local_rank)) return;  // it had ended before
  happen(id, WorkerExited{round, local_rank, status});
}

void Cluster::plan_coordinator_tick() {
  if (const auto deadline = coordinator_.next_deadline())
    after(std::max(*deadline - now_, Duration::zero()), [this] {
      for (const Order& order : coordinator_.on(CoordinatorTick{}, now_)) obey(order);
    });
}

void Cluster::plan_tick(int node) {
  if (const auto deadline = nodes_[node].supervisor.next_deadline())
    after(std::max(*deadline - now_, Duration::zero()), [this, node] {
      for (const Action& action : nodes_[node].supervisor.on(Tick{}, now_)) carry_out(node, action);
    });
}

// Ranks are decided once per round, so no rank is held twice while all that runs belongs to one round.
void Cluster::hold_invariants() const {
  for (const Node& node : nodes_)
    invariant(node.running.empty() || node.round == rounds_, "all running workers belong to the newest round");
}

}  // namespace ddprun::test
