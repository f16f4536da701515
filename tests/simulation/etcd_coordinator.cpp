#include "tests/simulation/etcd_coordinator.h"

#include "tests/simulation/etcd_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

RoundPolicy policy_on_etcd(const EtcdClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .restarts = {.max_restarts = 1'000'000, .credit_after = {}},
          .exclusion = {.failures = 0},
          .last_call = options.last_call,
          .record_outside = true};
}

}  // namespace

EtcdCoordinator::EtcdCoordinator(EtcdAgent& agent, const Succession& from)
    : SimulatedCoordinator(
          agent,
          Coordinator(policy_on_etcd(agent.cluster.options), agent.now(), agent.cluster.options.seed, agent.id, from),
          CoordinatorLiveness(kLease, agent.id, [&agent] { return agent.etcd.contact(); }),
          {from.term, from.record.number}, 1ms),
      agent_(agent),
      cluster_(agent.cluster),
      outside_(from.record) {
  liveness.begin();
}

bool EtcdCoordinator::leads() const { return agent_.leadership.get() == this; }

void EtcdCoordinator::on_quorum_lost() {
  agent_.note("stops coordinating: neither etcd nor all nodes are in reach");
  agent_.step_down();
}

void EtcdCoordinator::close(NodeId, Network::LinkId link, bool) { agent_.hang_up(link); }

bool EtcdCoordinator::refuses(NodeId id) const {
  return cluster_.node(id).refuses() && cluster_.net.reaches(agent_.id, id);
}

void EtcdCoordinator::on_decided() {
  const int changes = coordinator.changes();
  const bool ends = coordinator.is_over() && !std::exchange(told_end_, true);
  if (std::exchange(ledger_changes_, changes) != changes || ends) report_record();
}

void EtcdCoordinator::report_record() {
  outside_.ledger = coordinator.ledger_record(agent_.now());
  const Outcome* const over = coordinator.outcome();
  const RecordChanged changed{outside_, over ? std::optional(*over) : std::nullopt};
  cluster_.net.after({}, [&agent = agent_, changed] { agent.on_node([&agent, changed] { agent.etcd.on(changed); }); });
}

void EtcdCoordinator::on_stored(const RecordId& id) {
  stored_ = id;
  if (!waits_ || stored_ != newest || quorum_age() > kLease) return;
  begin_round(*std::exchange(waits_, std::nullopt));
}

void EtcdCoordinator::begin_round(const Order& order) {
  if (stored_ != newest && cluster_.options.bug != EtcdBug::not_held_until_stored) return void(waits_ = order);
  if (std::holds_alternative<StartRound>(order)) return to_round(std::get<StartRound>(order));
  agent_.note("hands over");
  agent_.step_down();
}

void EtcdCoordinator::form(const Round& round) {
  newest = round.id();
  note_forming(round);
  record = outside_ = round;
  waits_.reset();
  report_record();
  if (cluster_.net.chance(cluster_.options.failure))
    cluster_.failing[round.id()] = round.nodes[cluster_.net.draw() % round.nodes.size()].id;
  for (const auto& [id, link] : peers)
    if (const int rank = round.group_rank(id); rank < static_cast<int>(kStandbys)) send(id, link, KeepRecord{round});
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) to_node(round.nodes[i].id, TakeSeat{all[i], round.term});
}

void EtcdCoordinator::end_job(const EndJob& order) {
  cluster_.last_end = order.outcome.verdict;
  if (!cluster_.end && quorum_age() <= kLease) {  // not one that was paused, and is not in charge any more
    cluster_.end = order.outcome;
    for (const auto& [id, link] : peers) cluster_.node(id).in_last_round = true;
    if (cluster_.net.chance(cluster_.options.kill_at_end))
      cluster_.net.after(cluster_.net.milliseconds(30), [&agent = agent_] {
        if (!agent.listens()) return;
        agent.cluster.keys_stay = true;
        agent.die(agent.net.chance(agent.cluster.options.silent));
      });
  }
  to_all(order);
}

void EtcdCoordinator::send(NodeId id, Network::LinkId link, const ToAgent& message) {
  agent_.answer(id, link, message);
}

}  // namespace ddprun::test
