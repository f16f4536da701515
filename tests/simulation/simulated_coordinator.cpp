#include "tests/simulation/simulated_coordinator.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kLeaseCheckEvery = Duration(kLease) / 10;

}  // namespace

SimulatedCoordinator::SimulatedCoordinator(SimulatedNode& host, Coordinator decisions, CoordinatorLiveness contacts,
                                           const RecordId& record_id, Duration probe_least)
    : coordinator(std::move(decisions)),
      liveness(std::move(contacts)),
      newest(record_id),
      host_(host),
      probe_least_(probe_least) {}

void SimulatedCoordinator::begin(const std::vector<RoundNode>& members) {
  const auto keep = shared_from_this();
  for (const RoundNode& member : members)
    if (member.id != host_.id) probe(member.id);
  check_leases();
  if (leads()) schedule_tick();
}

bool SimulatedCoordinator::holds(NodeId id, Network::LinkId link) const {
  const auto peer = peers.find(id);
  return peer != peers.end() && peer->second == link;
}

void SimulatedCoordinator::add(NodeId id, Network::LinkId link) {
  peers[id] = link;
  liveness.add(id, host_.now());
}

void SimulatedCoordinator::on_message(NodeId id, const FromAgent& message) {
  const auto keep = shared_from_this();
  liveness.heard(id, host_.now());
  std::visit(overloaded{
                 [](const Hello&) {},
                 [](const FailureText&) {},
                 [](const VoteRequest&) {},
                 [](const CoordinatorAnnouncement&) {},
                 [](const ClientRequest&) {},
                 [&](const Heartbeat& m) {
                   if (m.loop_stood >= kLoopLimit) return lose(id, "its agent has been stuck");
                   liveness.on_heartbeat(id, m, host_.now());
                   to_node(id, HeartbeatAnswer{m.number, quorum_age(), {}});
                 },
                 [&](const NodeReady& m) {
                   coordinate(m);
                   if (leads()) send_record_to_spare(id);
                 },
                 [&](const auto& m) { coordinate(m); },
             },
             message);
}

void SimulatedCoordinator::lose(NodeId id, const std::string& how, bool closed) {
  const auto keep = shared_from_this();
  close(id, peers.extract(id).mapped(), closed);
  const TimePoint workers_until = liveness.remove(id);
  coordinate(NodeLost{id, waits_for_workers() ? workers_until : host_.now(), how});
  probe(id);
}

// Repeats until it is refused, or the node is back.
void SimulatedCoordinator::probe(NodeId id) {
  host_.after(probe_least_ + host_.net.milliseconds(100), [this, keep = shared_from_this(), id] {
    if (!leads() || !coordinator.awaits(id) || peers.contains(id)) return;
    if (refuses(id)) return coordinate(NodeGone{id});
    host_.after(1s, [this, keep, id] { probe(id); });
  });
}

void SimulatedCoordinator::check_leases() {
  const auto keep = shared_from_this();
  if (!leads()) return;
  if (!coordinator.is_over() && quorum_age() > kLease) return on_quorum_lost();
  for (const NodeId id : liveness.silent(host_.now()))
    if (leads()) lose(id, "no heartbeat for 5 s");
  host_.after(kLeaseCheckEvery, [this, keep = shared_from_this()] { check_leases(); });
}

void SimulatedCoordinator::coordinate(const Message& message) {
  const auto keep = shared_from_this();
  if (!leads()) return;
  for (const Order& order : decide(message))
    if (leads()) execute(order);
  if (!leads()) return;
  schedule_tick();
  on_decided();
}

void SimulatedCoordinator::execute(const Order& order) {
  std::visit(overloaded{
                 [&](const FormRound& o) { form(o.round); },
                 [&](const StartRound& o) { start_round(o); },
                 [&](const EndRound& o) {
                   host_.transcript.note(named(newest) + " ends: " + o.reason);
                   on_round_end();
                   to_round(o);
                 },
                 [&](const EndJob& o) {
                   host_.transcript.note("the job ends: " + o.outcome.reason);
                   end_job(o);
                 },
                 [&](const AllNotified& o) { to_all(o); },
                 [&](const Recall& o) {
                   to_node(o.node, EndRound{o.round, false, o.reason});
                 },
                 [&](const Dismiss& o) {
                   note_left_out(o.node, "is dismissed: " + o.outcome.reason);
                   to_node(o.node, EndJob{o.outcome, o.for_all});
                 },
                 [&](const Exclude& o) {
                   note_left_out(o.node, "is excluded: " + o.why);
                   to_node(o.node, Excluded{o.why, o.lasts});
                 },
                 [&](const AskStandings& o) { to_round(o); },
                 [&](const BlameWorker& o) { to_node(o.node, o); },
                 [&](const JobReply& o) { note_act(o); },
                 [&](const KeepRange& o) { to_all(o); },
                 [&](const ReportPace& o) { to_node(o.node, o); },
                 [&](const HandOver& o) { hand_over(o); },
                 [](const auto&) {},
             },
             order);
}

void SimulatedCoordinator::note_forming(const Round& round) {
  host_.transcript.note(named(round.id()) + " forms of " + std::to_string(round.nodes.size()) + " nodes, at node" +
                        std::to_string(host_.id));
}

void SimulatedCoordinator::schedule_tick() {
  const auto deadline = coordinator.next_deadline();
  if (!deadline || tick_at_ == deadline) return;
  tick_at_ = deadline;
  host_.at_time(*deadline, [this, keep = shared_from_this(), due = *deadline] {
    if (!leads()) return;
    if (tick_at_ == due) tick_at_.reset();
    if (coordinator.next_deadline() == due) coordinate(CoordinatorTick{});
  });
}

void SimulatedCoordinator::send_record_to_spare(NodeId id) {
  if (record && !record->find(id)) to_node(id, KeepRecord{*record});
}

void SimulatedCoordinator::to_node(NodeId id, const ToAgent& message) {
  if (const auto peer = peers.find(id); peer != peers.end()) send(id, peer->second, message);
}

void SimulatedCoordinator::to_all(const ToAgent& message) {
  for (const auto& [id, link] : peers) send(id, link, message);
}

void SimulatedCoordinator::to_round(const ToAgent& message) {
  if (!record) return;
  for (const RoundNode& member : record->nodes) to_node(member.id, message);
}

}  // namespace ddprun::test
