#include "tests/simulation/cluster_agent.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kTryLimit = 5s, kSearchLimit = 30s, kSearchLimitUnseated = 600s, kNewJobLimit = 5s;
constexpr int kSlowNameMs = 8'000;
constexpr std::size_t kPlacesKept = 8;

}  // namespace

ClusterAgent::ClusterAgent(NodeId own, std::size_t its_slot, Cluster& its_cluster)
    : SimulatedNode(own, its_cluster.net, its_cluster.notes),
      cluster(its_cluster),
      slot(its_slot),
      election(*this),
      port(*this),
      workers(*this),
      store(*this),
      first_place(static_cast<std::size_t>(cluster.options.places)) {}

void ClusterAgent::listen_at_place() {
  if (!is_present()) return;
  at_place = true;
  if (slot != 0) return;
  first_place.take();
  lead_if_first();
}

void ClusterAgent::lead_if_first() {
  if (!port.leadership && first_place.should_begin(election.value().newest(), net.now())) port.lead({}, {});
}

void ClusterAgent::be_killed() {
  host_down = cluster.options.silent > 0 && net.chance(cluster.options.silent);
  note(host_down ? "its host is gone" : "its agent is killed");
  alive = false;
  net.after(20ms, [this] { workers.be_killed(); });  // done by its keeper
  vanish();
  cluster.checks.on_disturbance();
  cluster.restart_slot(slot);
}

// Its links close if the other end is reachable; soon its port refuses connections.
void ClusterAgent::vanish() {
  port.leadership.reset();
  if (!host_down) close_links();
}

void ClusterAgent::close_links() {
  std::vector<NodeId> others;
  for (const auto& one : cluster.nodes)
    if (one->id != id && one->alive && net.reaches(id, one->id)) others.push_back(one->id);
  net.after(5ms, [this, others = std::move(others)] {
    for (const NodeId other : others)
      if (cluster.node(other).listens()) cluster.node(other).on_link_closed(id);
  });
}

void ClusterAgent::on_link_closed(NodeId by) {
  if (const auto leadership = port.leadership; leadership && leadership->peers.contains(by))
    leadership->lose(by, "its connection was closed", true);
  if (link && coordinator == by) try_again(kPause, false);
  store.on_store_gone(by);
}

void ClusterAgent::be_asked_to_leave() {
  note("SIGTERM");
  left = true;
  be_signalled(SIGTERM);
}

void ClusterAgent::be_signalled(int number) {
  signal = number;
  dispatch(agent::Signalled{number});
  cluster.checks.on_disturbance();
}

void ClusterAgent::stand(Duration lasts) {
  stands_since_ = net.now();
  stands_until_ = net.now() + lasts;
  note("its loop stands");
  cluster.checks.on_disturbance(1);
  net.after(lasts, [this] { go_on(); });
}

void ClusterAgent::go_on() {
  note("its loop goes on");
  while (!to_do_.empty()) {
    const std::function<void()> next = std::move(to_do_.front());
    to_do_.pop_front();
    next();
  }
  cluster.checks.on_disturbance(-1);
}

void ClusterAgent::on_loop(const std::function<void()>& what) {
  if (!stands()) return what();
  to_do_.push_back(what);
}

void ClusterAgent::dispatch(const agent::Event& event) {
  if (stands()) return on_loop([this, event] { dispatch(event); });
  SimulatedNode::dispatch(event);
}

void ClusterAgent::abandon_job() {
  if (!is_present() || end || std::exchange(abandoned_, true)) return;
  note("gives up the job");
  disconnect();
  dispatch(agent::Isolated{});
  rejoin_as_new_node();
}

// Called once its workers are gone.
void ClusterAgent::rejoin_as_new_node() {
  if (stands()) return on_loop([this] { rejoin_as_new_node(); });
  if (!is_present()) return;
  if (supervisor.round_with_workers()) return net.after(50ms, [this] { rejoin_as_new_node(); });
  finished = exited = true;
  vanish();
  if (signal != 0) return;
  ClusterAgent& next = cluster.add_node({}, slot);
  next.instead_of = id;
  next.rejoined_ = next.seated_ = true;
  next.in_last_round = std::exchange(in_last_round, false);  // it is the same agent
  next.offer.rounds = newest.round;
  next.disconnected_since_ = net.now();
  next.note("begins anew, instead of node" + std::to_string(id));
}

Duration ClusterAgent::patience() const { return seated_ ? kSearchLimit : kSearchLimitUnseated; }

bool ClusterAgent::stays_for(Duration least) const {
  return !left && (!disconnected_since_ || *disconnected_since_ + patience() >= net.now() + least);
}

std::vector<NodeId> ClusterAgent::places() const {
  std::vector<NodeId> out;
  if (coordinator) out.push_back(*coordinator);
  for (std::size_t i = 0; i < cluster.count_places(); ++i) out.push_back(cluster.slots[i]);
  if (const auto second = cluster.first_seated(id); second && !cluster.options.returns)
    out.push_back(*second);  // another endpoint
  for (std::size_t i = 0; kept_ && i < std::min(kPlacesKept, kept_->nodes.size()); ++i)
    out.push_back(kept_->nodes[i].id);
  return out;
}

void ClusterAgent::connect() {
  if (!is_present() || link) return;
  const auto all = places();
  const std::size_t index = static_cast<std::size_t>(turn) % all.size(), first = coordinator ? 1 : 0;
  const NodeId at = all[index];
  const bool by_place = index >= first && index < first + cluster.count_places();
  const int its_attempt = ++attempt;
  Duration look_up{};
  if (by_place && cluster.options.slow_names > 0 && net.chance(cluster.options.slow_names))
    look_up = net.milliseconds(kSlowNameMs);
  if (!net.reaches(id, at) || cluster.node(at).host_down)
    return net.after(look_up + kTryLimit, [this, its_attempt] {
      if (attempt == its_attempt) try_again(kPause, false);
    });
  net.after(look_up + net.milliseconds(10), [this, at, its_attempt, by_place] { reach(at, its_attempt, by_place); });
}

void ClusterAgent::reach(NodeId at, int its_attempt, bool by_place) {
  if (!is_present() || attempt != its_attempt) return;
  if (is_stuck()) return try_again(kPause, false);
  const NodeId wanted = std::exchange(at, cluster.who_answers(at));
  if (!cluster.answers(at) || (by_place && !cluster.node(at).at_place)) return try_again(kPause, coordinator == wanted);
  link = net.open(id, at);
  on_hello_sent();
  net.send(link, at, [this, at, link = link, record = newest] { cluster.node(at).port.on_hello(*this, link, record); });
  net.after(kTryLimit, [this, its_attempt] {
    if (attempt == its_attempt && !welcome) try_again(kPause, false);
  });
}

void ClusterAgent::disconnect() {
  const Network::LinkId before = forget_link();
  const NodeId other = net.other_end(before, id);
  net.close(before);
  const auto holder = [this, other, before]() -> std::shared_ptr<ClusterCoordinator> {
    const auto& leadership = cluster.node(other).port.leadership;
    return leadership && leadership->holds(id, before) ? leadership : nullptr;
  };
  if (other == 0 || !holder() || !net.reaches(id, other)) return;
  net.after(5ms, [this, holder] {  // the other end sees it, if reachable
    if (const auto leadership = holder()) leadership->lose(id, "its connection was closed", true);
  });
}

void ClusterAgent::try_again(Duration pause, bool gone, const RecordId& known) {
  if (!is_present()) return;
  disconnect();
  ++turn;
  net.after(pause, [this, its_attempt = attempt] {
    if (attempt == its_attempt) connect();
  });
  first_place.on_failed_attempt(known, net.now());
  if (end) set_leave_deadline();
  election.on(CoordinatorDisconnected{gone, port.leadership ? net.now() : std::max(heard_at, led_at)});
  if (!is_present() || abandoned_ || end) return;
  lead_if_first();
  on_loop([this, when = net.now()] { without_coordinator(when); });
}

// As the agent does.
void ClusterAgent::without_coordinator(TimePoint when) {
  if (!is_present() || abandoned_ || finished_with) return;
  known_ = 0;
  if (!disconnected_since_) disconnected_since_ = when;
  if (supervisor.round_with_workers()) return;
  if (signal != 0) return dispatch(agent::JobEnded{{Verdict::interrupted, signal, "interrupted", {}}});
  if (when - *disconnected_since_ < (rejoined_ ? kNewJobLimit : patience())) return;
  dispatch(agent::JobEnded{{Verdict::out_of_reach, 0, "the coordinator could not be reached", {}}});
}

void ClusterAgent::connect_to(NodeId at) {
  disconnect();
  coordinator = at;
  turn = 0;
  connect();
}

void ClusterAgent::on_welcome(NodeId at, const Welcome& message) {
  coordinator = at;
  turn = 0;
  welcome = true;
  rejoined_ = false;
  first_place.connected();
  heard_at = net.now();
  answered_ = 0;
  spoken_ = !contact_ || cluster.options.bug == Bug::unspoken;
  unspoken_contact_ = TimePoint::min();
  on_contact(0, message.quorum_age);
  election.on(CoordinatorConnected{message.term});
  if (coordinator != id) {
    election.stop_announcing();
    port.stop_leading({message.term, {}}, coordinator);
  } else {
    election.announce_again(message.term);
  }
  schedule_heartbeat(attempt);
  leave_deadline_ = TimePoint::max();
  if (end) return to_coordinator(JobWasOver{id, *end});
  on_loop([this, its_attempt = attempt] {
    if (!is_present()) return;
    disconnected_since_.reset();
    known_ = its_attempt;
    report_back();
  });
}

void ClusterAgent::take_contact(TimePoint then) {
  if (spoken_) return SimulatedNode::take_contact(then);
  unspoken_contact_ = std::max(unspoken_contact_, then);
}

void ClusterAgent::on_stuck(int its_attempt) {
  isolate();
  net.after(kHeartbeatEvery, [this, its_attempt] {
    if (attempt == its_attempt) try_again(kPause, false);
  });
}

void ClusterAgent::on_lease_over() {
  note("no contact to a quorum for the lease");
  if (cluster.options.bug != Bug::no_lease) isolate();
  if (link) try_again(kPause, false);
}

// If its loop stands, its link ends the workers.
void ClusterAgent::isolate() {
  contact_.reset();
  spoken_ = true;
  isolated_ = attempt - (welcome ? 0 : 1);  // not the one that is being made
  const bool kills = stands() && cluster.options.bug != Bug::standing;
  workers.fences += kills ? 1 : 0;
  on_loop([this, kills] { workers.fences -= kills ? 1 : 0; });
  dispatch(agent::Isolated{});
  if (kills) workers.signal(SIGKILL);
}

void ClusterAgent::on_elsewhere(const Elsewhere& referral, std::optional<NodeId> at, bool replaced) {
  try_again(kPause, replaced, referral.record);
  if (is_present() && at && election.value().would_follow(referral.term) && at != coordinator) connect_to(*at);
}

void ClusterAgent::to_coordinator(const FromAgent& message) {
  if (!welcome) return;
  if (!std::holds_alternative<Heartbeat>(message) && !std::exchange(spoken_, true)) {
    contact_ = std::max(*contact_, unspoken_contact_);
    watch_lease();
  }
  net.send(link, *coordinator, [this, at = *coordinator, message] {
    if (cluster.node(at).listens()) cluster.node(at).port.on_message(id, message);
  });
}

void ClusterAgent::from_loop(const FromAgent& message) {
  if (std::holds_alternative<NodeConfirmed>(message)) cluster.checks.on_confirmed(id, {job, newest});
  if (known_ == attempt) to_coordinator(message);
}

// A node that comes back repeats it.
void ClusterAgent::send_signal() {
  if (signal == SIGINT) from_loop(JobInterrupted{id, signal});
  if (signal == SIGTERM) from_loop(NodeLeaves{id, signal});
}

void ClusterAgent::on_message(const ToAgent& message) {
  if (!is_present()) return;
  heard_at = net.now();
  const auto order = [&](const agent::Event& event) {
    on_loop([this, event, from = attempt] {
      if (from > isolated_ || cluster.options.bug == Bug::old_orders) dispatch(event);
    });
  };
  std::visit(overloaded{
                 [&](const HeartbeatAnswer& m) { on_contact(m.number, m.quorum_age); },
                 [&](const KeepRecord& m) {
                   kept_ = m.record;
                   if (m.record.previous_electorates.empty())
                     election.on(RecordConfirmed{m.record.id(), m.record.find(id) != nullptr});
                 },
                 [&](const TakeSeat& m) {
                   take_seat(m);
                   order(agent::RoundFormed{m.seat});
                 },
                 [&](const StartRound& m) {
                   election.on(RoundBegan{m.round});
                   order(agent::RoundStarted{m.round});
                 },
                 [&](const EndRound& m) {
                   order(agent::RoundEnded{m.round, m.planned});
                 },
                 [&](const EndJob& m) { on_job_end(m); },
                 [&](const AllNotified&) { all_notified_ = true; },
                 [&](const AskStandings& m) { on_loop([this, m] { workers.on_asked(m); }); },
                 [&](const BlameWorker& m) { on_loop([this, m] { workers.blame(m); }); },
                 [&](const KeepRange& m) {
                   election.on(RecordResized{m.record, m.range});
                 },
                 [](const auto&) {},
             },
             message);
}

void ClusterAgent::take_seat(const TakeSeat& message) {
  const Seat& seat = message.seat;
  const RecordId record{message.term, seat.round};
  if (kept_ && kept_->id() != record) kept_.reset();
  election.on(RecordKept{record, kept_});
  newest = record;
  job = job_of(seat.master_host);
  offer.rounds = record.round;
  offer.workers = seat.workers;
  if (seat.group_rank == 0) store.open_store();
  seated_ = true;
  cluster.seated.insert(id);
}

bool ClusterAgent::may_leave() const { return SimulatedNode::may_leave() || cluster.options.bug == Bug::silent_end; }

void ClusterAgent::give_up_at_the_end() {
  if (election.value().is_alone()) leave_deadline_ = net.now();
}

void ClusterAgent::leave() {
  cluster.checks.on_leave(*this);
  const Verdict verdict = finished_with->verdict;
  if (verdict == Verdict::out_of_reach || verdict == Verdict::too_few_left) cluster.restart_slot(slot);
}

}  // namespace ddprun::test
