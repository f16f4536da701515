#include "tests/simulation/cluster_coordinator.h"

#include "tests/simulation/cluster_agent.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

RoundPolicy policy_of(const ClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .fixed_ranks = options.fixed_ranks,
          .restarts = {.max_restarts = options.max_restarts, .credit_after = {}},
          .exclusion = {.failures = options.exclude_after, .lasts = std::chrono::minutes(3)}};
}

Coordinator coordinator_at(ClusterAgent& agent, const std::optional<Succession>& succession) {
  const ClusterOptions& options = agent.cluster.options;
  if (!succession) return Coordinator(policy_of(options), agent.now(), options.seed, agent.id);
  return Coordinator(policy_of(options), agent.now(), options.seed, agent.id, *succession);
}

}  // namespace

std::string store_host(NodeId id, int job) { return "node" + std::to_string(id) + " " + std::to_string(job); }
int job_of(const std::string& store_host) { return std::stoi(store_host.substr(store_host.find(' '))); }

ClusterCoordinator::ClusterCoordinator(ClusterAgent& agent, const std::optional<Succession>& succession)
    : SimulatedCoordinator(agent, coordinator_at(agent, succession), CoordinatorLiveness(kLease, agent.id),
                           succession ? RecordId{succession->term, succession->record.number} : RecordId{}, {}),
      job(succession ? job_of(succession->record.master_host) : ++agent.cluster.jobs),
      agent_(agent),
      cluster_(agent.cluster) {}

bool ClusterCoordinator::leads() const { return agent_.port.leadership.get() == this; }
bool ClusterCoordinator::waits_for_workers() const { return cluster_.options.bug != Bug::no_fence; }

Duration ClusterCoordinator::quorum_age() {
  return cluster_.options.bug == Bug::no_quorum ? Duration() : SimulatedCoordinator::quorum_age();
}

void ClusterCoordinator::on_quorum_lost() {
  agent_.note("stops coordinating: too many nodes are unreachable");
  agent_.port.stop_leading({coordinator.term(), {}}, {});
}

void ClusterCoordinator::close(NodeId id, Network::LinkId link, bool closed) {
  cluster_.net.close(link);
  ClusterAgent& peer = cluster_.node(id);
  if (!closed && peer.is_present() && peer.link == link && cluster_.net.reaches(agent_.id, id))
    cluster_.net.after(5ms, [&peer, link] {
      if (peer.is_present() && peer.link == link) peer.try_again(kPause, false);
    });
  workers_by_users.erase(id);  // it may not know of them yet
}

bool ClusterCoordinator::refuses(NodeId id) const {
  const ClusterAgent& other = cluster_.node(id);
  return other.running.empty() && !other.listens() && !other.host_down && cluster_.who_answers(id) == id &&
         cluster_.net.reaches(agent_.id, id);
}

std::vector<Order> ClusterCoordinator::decide(const Message& message) {
  tell_spent(message);
  std::vector<Order> orders = SimulatedCoordinator::decide(message);
  cluster_.checks.on_account(*this, agent_.now());
  return orders;
}

// Before a node is ready again, or reports a failure, it tells what it has measured: here anything at all.
void ClusterCoordinator::tell_spent(const Message& message) {
  const auto* ready = std::get_if<NodeReady>(&message);
  const auto* failed = std::get_if<WorkerFailed>(&message);
  if (!ready && !failed) return;
  auto& measured = cluster_.measured;
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
  cluster_.notes.note(named(newest) + " starts");
  to_round(order);
  record->previous_electorates.clear();
  send_record_to_spares();
}

void ClusterCoordinator::end_job(const EndJob& order) {
  const bool first = cluster_.checks.on_end(order.outcome);
  decided_end_ |= first;
  if (first && record)
    for (const RoundNode& member : record->nodes) cluster_.node(member.id).in_last_round = peers.contains(member.id);
  to_all(order);
  if (first && cluster_.options.kill_at_end > 0 && cluster_.net.chance(cluster_.options.kill_at_end))
    cluster_.net.after(cluster_.net.milliseconds(20), [&agent = agent_] {
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

void ClusterCoordinator::note_left_out(NodeId id, const std::string& how) { cluster_.node(id).note(how); }

void ClusterCoordinator::note_act(const JobReply& reply) {
  const Act& act = cluster_.acts.at(static_cast<std::size_t>(reply.serial));
  const auto& done = std::get<ActResult>(reply.answer);
  agent_.note(in_words(act) + (done.done ? ": " : ", refused: ") + done.text);
  if (!done.done) return;
  ++cluster_.acts_done;
  if (act.kind == ActKind::resize) cluster_.checks.on_resize(act);
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
  cluster_.checks.on_round(*this, round);
  const auto draw_node = [&] { return round.nodes[cluster_.net.draw() % round.nodes.size()].id; };
  if (cluster_.net.chance(cluster_.options.failure)) cluster_.failing[key] = draw_node();
  if (cluster_.net.chance(cluster_.options.hang)) cluster_.hanging[key] = draw_node();
  record = round;
  send_record_to_spares();
  send_record_to_standbys();
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) {
    to_node(round.nodes[i].id, TakeSeat{all[i], round.term});
    if (cluster_.options.bug == Bug::no_confirmation) to_node(round.nodes[i].id, StartRound{round.number});
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
  cluster_.net.send(link, id, [&cluster = cluster_, id, link, message, first_end] {
    ClusterAgent& peer = cluster.node(id);
    if (peer.link != link) return;
    if (first_end && peer.is_present()) cluster.checks.on_told_first(id);
    peer.on_message(*message);
  });
}

void ClusterPort::lead(const std::optional<Succession>& succession, TimePoint requested_at) {
  stop_leading({}, {});
  if (!succession) agent_.note("begins to coordinate");
  leadership = std::make_shared<ClusterCoordinator>(agent_, succession);
  const std::vector<RoundNode> members = succession ? succession->record.nodes : std::vector<RoundNode>{};
  for (const RoundNode& member : members) leadership->liveness.followed(member.id, requested_at);
  leadership->begin(members);
}

void ClusterPort::stop_leading(const Elsewhere& referral, std::optional<NodeId> at) {
  elsewhere_ = referral;
  elsewhere_.record = agent_.election.value().newest();
  elsewhere_at_ = at;
  const auto before = std::exchange(leadership, nullptr);
  if (!before) return;
  agent_.led_at = agent_.now();
  for (const auto& [id, link] : before->peers)
    agent_.net.send(link, id, [&peer = agent_.cluster.node(id), link = link, told = elsewhere_, at] {
      if (peer.is_present() && peer.link == link) peer.on_elsewhere(told, at, false);
    });
}

void ClusterPort::answer_elsewhere(ClusterAgent& from, Network::LinkId link) {
  Elsewhere referral = elsewhere_;
  referral.record = agent_.election.value().newest();
  agent_.net.send(link, from.id, [this, &from, link, referral, where = elsewhere_at_] {
    const auto before = from.coordinator;
    if (from.is_present() && from.link == link)
      from.on_elsewhere(referral, where,
                        before && *before != agent_.id && agent_.cluster.who_answers(*before) == agent_.id);
  });
}

void ClusterPort::on_hello(ClusterAgent& from, Network::LinkId link, const RecordId& record) {
  if (!agent_.listens()) return;
  const Bug bug = agent_.cluster.options.bug;
  if (const auto leading = leadership; leading && from.instead_of != 0) {
    leading->coordinate(JobAbandoned{from.instead_of});
    if (leadership && leadership->peers.contains(from.instead_of))
      leading->lose(from.instead_of, "it left in order to rejoin");
  }
  if (leadership && record > leadership->newest) {
    const bool may_wait = leadership->newest == RecordId{} && bug != Bug::no_waiting;
    if (!may_wait) stop_leading({record.term, {}}, {});
    if (may_wait) leadership->coordinate(JobElsewhere{from.id, record.round});
    if (bug == Bug::no_waiting) agent_.first_place = FirstPlace(1);
    return answer_elsewhere(from, link);
  }
  if (leadership) return take(from, link);
  if (!agent_.end || bug == Bug::silent_end) return answer_elsewhere(from, link);
  agent_.net.send(link, from.id, [&from, link, end = *agent_.end] {
    if (from.is_present() && from.link == link) from.on_message(EndJob{end, true});
  });
}

void ClusterPort::take(ClusterAgent& from, Network::LinkId link) {
  const auto leading = leadership;
  if (leading->peers.contains(from.id)) leading->lose(from.id, "it reconnected");
  leading->add(from.id, link);
  for (const auto& other : agent_.cluster.nodes)  // it may have taken a dead one's port
    if (other.get() != &from && other->at_place && !other->listens() &&
        agent_.cluster.who_answers(other->id) == from.id)
      leading->coordinate(NodeGone{other->id});
  if (leadership != leading) return;
  const Welcome welcome{"", kLease, leading->coordinator.term(), leading->quorum_age()};
  agent_.net.send(link, from.id, [this, &from, link, welcome] {
    if (from.is_present() && from.link == link) from.on_welcome(agent_.id, welcome);
  });
}

void ClusterPort::on_message(NodeId id, const FromAgent& message) {
  if (const auto leading = leadership; leading && leading->peers.contains(id)) leading->on_message(id, message);
}

}  // namespace ddprun::test
