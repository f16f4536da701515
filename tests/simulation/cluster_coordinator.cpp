#include "tests/simulation/cluster_coordinator.h"

#include <algorithm>
#include <memory>

#include "tests/simulation/cluster_agent.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

RoundPolicy policy_of(const ClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .fixed_ranks = options.fixed_ranks,
          .restarts = {.max_restarts = options.max_restarts, .credit_after = {}},
          .exclusion = {.failures = options.exclude_after, .lasts = std::chrono::minutes(3)}};
}

Coordinator coordinator_at(ClusterAgent& agent, const std::optional<Succession>& succession) {
  const ClusterOptions& options = agent.world.options;
  if (!succession) return Coordinator(policy_of(options), agent.now(), options.seed, agent.id);
  return Coordinator(policy_of(options), agent.now(), options.seed, agent.id, *succession);
}

}  // namespace

ClusterCoordinator::ClusterCoordinator(ClusterAgent& agent, const std::optional<Succession>& succession)
    : SimulatedCoordinator(agent, coordinator_at(agent, succession), CoordinatorLiveness(kLease, agent.id),
                           succession ? RecordId{succession->term, succession->record.number} : RecordId{}, {}),
      job(succession ? job_of(succession->record.master_host) : ++agent.world.jobs),
      agent_(agent),
      world_(agent.world) {}

bool ClusterCoordinator::leads() const { return agent_.port.leadership.get() == this; }
bool ClusterCoordinator::waits_for_workers() const { return world_.options.bug != Bug::no_fence; }

Duration ClusterCoordinator::quorum_age() {
  return world_.options.bug == Bug::no_quorum ? Duration() : SimulatedCoordinator::quorum_age();
}

void ClusterCoordinator::on_quorum_lost() {
  agent_.note("stops coordinating: too many nodes are unreachable");
  agent_.port.stop_leading({coordinator.term(), {}}, {});
}

void ClusterCoordinator::close(NodeId id, Network::LinkId link, bool closed) {
  world_.net.close(link);
  ClusterAgent& peer = world_.node(id);
  if (!closed && peer.is_present() && peer.link == link && world_.net.reaches(agent_.id, id))
    world_.net.after(5ms, [&peer, link] {
      if (peer.is_present() && peer.link == link) peer.try_again(kPause, false);
    });
  workers_by_users.erase(id);  // it may not know of them yet
}

bool ClusterCoordinator::refuses(NodeId id) const {
  const ClusterAgent& other = world_.node(id);
  return other.running.empty() && !other.listens() && !other.host_down && world_.who_answers(id) == id &&
         world_.net.reaches(agent_.id, id);
}

std::vector<Order> ClusterCoordinator::decide(const Message& message) {
  tell_spent(message);
  std::vector<Order> orders = SimulatedCoordinator::decide(message);
  world_.checks.on_account(*this, agent_.now());
  return orders;
}

// Before a node is ready again, or reports a failure, it tells what it has measured: here anything at all.
void ClusterCoordinator::tell_spent(const Message& message) {
  const auto* ready = std::get_if<NodeReady>(&message);
  const auto* failed = std::get_if<WorkerFailed>(&message);
  if (!ready && !failed) return;
  auto& measured = world_.measured;
  const auto up_to = [&](int seconds) { return std::chrono::seconds(measured() % static_cast<unsigned>(seconds)); };
  RoundSpent spent{.reports = true, .start = up_to(20), .restore = up_to(20), .train = up_to(400)};
  spent.doing = kTimeKinds[measured() % kTimeKinds.size()].kind;
  spent.since_progress = up_to(50);
  spent.unfinished = up_to(20);
  spent.steps = measured() % 100;
  spent.first_step = measured() % 100;
  spent.last_step = measured() % 200;
  coordinator.on(NodeSpent{ready ? ready->node : failed->failure.node, newest.round, spent}, agent_.now());
}

void ClusterCoordinator::start_round(const StartRound& order) {
  world_.transcript.note(named(newest) + " starts");
  to_round(order);
  record->previous_electorates.clear();
  send_record_to_spares();
}

void ClusterCoordinator::end_job(const EndJob& order) {
  const bool first = world_.checks.on_end(order.outcome);
  decided_end_ |= first;
  if (first && record)
    for (const RoundNode& member : record->nodes) world_.node(member.id).in_last_round = peers.contains(member.id);
  to_all(order);
  if (first && world_.options.kill_at_end > 0 && world_.net.chance(world_.options.kill_at_end))
    world_.net.after(world_.net.milliseconds(20), [&agent = agent_] {
      if (agent.alive) agent.be_killed();
    });
}

void ClusterCoordinator::hand_over(const HandOver& order) {
  agent_.note("hands over to node" + std::to_string(order.successor));
  record->previous_electorates.clear();
  send_record_to_standbys();
  send_record_to_spares();
  agent_.port.stop_leading({coordinator.term(), {}}, {});
}

void ClusterCoordinator::note_left_out(NodeId id, const std::string& how) { world_.node(id).note(how); }

void ClusterCoordinator::note_act(const JobReply& reply) {
  const Act& act = world_.acts.at(static_cast<std::size_t>(reply.serial));
  const auto& done = std::get<ActResult>(reply.answer);
  agent_.note(in_words(act) + (done.done ? ": " : ", refused: ") + done.text);
  if (!done.done) return;
  ++world_.acts_done;
  if (act.kind == ActKind::resize) world_.checks.on_resize(act);
  if (!changes_workers(act.kind)) return;
  for (const NodeView& one : coordinator.view(agent_.now()).nodes)
    if (one.place != NodePlace::lost && (act.node.empty() || act.node == one.host))
      workers_by_users[one.id] = one.workers;
}

void ClusterCoordinator::form(const Round& decided) {
  Round round = decided;
  round.master_host = store_host(round.nodes.front().id, job);
  const JobRound key{job, round.id()};
  newest = round.id();
  note_forming(round);
  world_.checks.on_round(*this, round);
  const auto draw_node = [&] { return round.nodes[world_.net.draw() % round.nodes.size()].id; };
  if (world_.net.chance(world_.options.failure)) world_.failing[key] = draw_node();
  if (world_.net.chance(world_.options.hang)) world_.hanging[key] = draw_node();
  record = round;
  send_record_to_spares();
  send_record_to_standbys();
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) {
    to_node(round.nodes[i].id, TakeSeat{all[i], round.term});
    if (world_.options.bug == Bug::no_confirmation) to_node(round.nodes[i].id, StartRound{round.number});
  }
}

void ClusterCoordinator::send_record_to_standbys() {
  const Round kept = *record;
  for (std::size_t i = 0; i < std::min(kept.nodes.size(), kStandbys); ++i) to_node(kept.nodes[i].id, KeepRecord{kept});
}

void ClusterCoordinator::send_record_to_spares() {
  for (const auto& [id, link] : peers) send_record_to_spare(id);
}

void ClusterCoordinator::send(NodeId id, Network::LinkId link, const ToAgent& sent) {
  const auto message = std::make_shared<const ToAgent>(sent);
  const auto* end = std::get_if<EndJob>(message.get());
  const bool first_end = end && end->for_all && decided_end_;
  world_.net.send(link, id, [&world = world_, id, link, message, first_end] {
    ClusterAgent& peer = world.node(id);
    if (peer.link != link) return;
    if (first_end && peer.is_present()) world.checks.on_told_first(id);
    peer.on_message(*message);
  });
}

}  // namespace ddprun::test
