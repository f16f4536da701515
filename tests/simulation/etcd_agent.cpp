#include "tests/simulation/etcd_agent.h"

#include "rendezvous/base/overloaded.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr Duration kPauseLeast = 50ms, kPauseLongest = 1s, kAttemptLimit = 5s, kKilledWithin = 500ms,
                   kVanishWithin = 150s;
constexpr double kClockErrorOfMachines = 1.05;  // kLeaseMargin is for that and for ending workers
constexpr std::size_t kFallbacks = 8;

Duration scaled(Duration time, double by) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(time.count()) * by));
}

}  // namespace

EtcdAgent::EtcdAgent(NodeId own, EtcdCluster& its_cluster)
    : SimulatedNode(own, its_cluster.net, its_cluster.notes), cluster(its_cluster), etcd(*this) {
  const int kind = net.up_to(3);
  rate_ = kind == 0 ? 1 : 1 + (kClockErrorOfMachines - 1) * (kind == 1 ? 1000 : net.up_to(1000)) / 1000.0;
  base_ = std::chrono::hours(1000 + net.up_to(1000));
  offer = {.workers = 1 + net.up_to(1), .host = "node" + std::to_string(id), .port = 1, .control = address_of(id)};
  progressed_ = true;
  elsewhere_.agent = id;
}

TimePoint EtcdAgent::now() const { return TimePoint() + base_ + scaled(net.now().time_since_epoch(), rate_); }

void EtcdAgent::on_node(const std::function<void()>& what) {
  if (!listens()) return;
  if (is_paused()) return to_do_.push_back(what);
  what();
}

void EtcdAgent::after(Duration by_its_clock, const std::function<void()>& what) {
  net.after(1ns + scaled(std::max(by_its_clock, Duration::zero()), 1 / rate_), [this, what] {
    if (is_paused() && listens()) return due_.push_back(what);
    on_node(what);
  });
}

bool EtcdAgent::is_excused() const { return net.now() <= excused_until_ || (is_paused() && now() >= lease_ends_); }

// Its keeper kills its workers. The kernel closes its connections and refuses others, if the host lives.
void EtcdAgent::die(bool silent) {
  cluster.trouble({});
  note(silent ? "its host is gone" : "its agent is killed");
  alive = false;
  host_down = silent;
  cluster.etcd.stop_watch(id);
  if (silent) running.clear();
  net.after(net.milliseconds(20), [this] { running.clear(); });
  if (link) hang_up(link);
  const auto before = std::exchange(leadership, nullptr);
  if (!before) return;
  for (const auto& [peer, its] : before->peers) hang_up(its);
}

void EtcdAgent::pause(Duration lasts) {
  note("is paused");
  cluster.trouble(lasts);
  paused_until_ = net.now() + lasts;
  net.after(lasts, [this] {
    note("goes on");
    if (now() >= lease_ends_) excused_until_ = net.now() + kKilledWithin;
    const bool due_first = net.chance(0.5);
    for (auto* queue : {due_first ? &due_ : &to_do_, due_first ? &to_do_ : &due_})
      while (!queue->empty()) {
        const auto next = std::move(queue->front());
        queue->pop_front();
        on_node(next);
      }
  });
}

void EtcdAgent::be_asked_to_leave() {
  cluster.trouble({});
  note("SIGTERM");
  left = true;
  on_node([this] { dispatch(agent::Signalled{SIGTERM}); });
}

void EtcdAgent::lead(const LeadJob& action) {
  stop_leading();
  Succession from = action.from;
  note("coordinates, from " + named(from.record.id()) + ", with term " + std::to_string(from.term));
  cluster.check_takeover();
  if (cluster.options.bug == EtcdBug::no_wait_for_members && !from.record.find(id)) from.workers_until = now();
  from.over = end;
  cluster.begins_anew |= cluster.lost_data && action.begins;
  leadership = std::make_shared<EtcdCoordinator>(*this, from);
  leadership->begin(from.record.nodes);
  holder_ = id;
  connect_to(id);
}

void EtcdAgent::stop_leading() {
  elsewhere_at_ = 0;
  const auto before = std::exchange(leadership, nullptr);
  if (!before) return;
  led_at = now();
  elsewhere_ = {.term = before->coordinator.term(), .agent = id};
  for (const auto& [peer, its] : before->peers) answer(peer, its, elsewhere_);
}

void EtcdAgent::stop_leading_for(int term) {
  note("coordinates no more");
  stop_leading();
  elsewhere_ = {.term = term, .agent = id};
}

void EtcdAgent::step_down() {
  stop_leading();
  etcd.on(SteppedDown{});
}

void EtcdAgent::follow(NodeId holder) {
  holder_ = holder;
  connect_to(holder);
}

int EtcdAgent::look_for(const std::vector<RoundNode>& nodes) {
  note("looks for the nodes of " + named(newest));
  keep_places(nodes, 1);
  follow(nodes.front().id);
  return ++looks_;
}

void EtcdAgent::keep_places(const std::vector<RoundNode>& nodes, std::size_t first) {
  fallbacks_.clear();
  for (std::size_t i = first; i < std::min(kFallbacks, nodes.size()); ++i) fallbacks_.push_back(nodes[i].id);
}

void EtcdAgent::learn_end(const Outcome& outcome) {
  note("learns from etcd that the job is over");
  on_end({outcome, true});
  all_notified_ = true;
}

void EtcdAgent::connect_to(NodeId at) {
  disconnect();
  coordinator_ = at;
  welcomed_by_ = 0;
  turn = referrals_ = 0;
  pause_ = kPauseLeast;
  connect();
}

void EtcdAgent::connect() {
  if (!is_present() || link || holder_ + coordinator_ == 0) return;
  std::vector<NodeId> places{coordinator_, holder_ ? holder_ : coordinator_};
  places.insert(places.end(), fallbacks_.begin(), fallbacks_.end());
  const NodeId at = places[static_cast<std::size_t>(turn) % places.size()];
  const int its_attempt = ++attempt;
  after(kAttemptLimit, [this, its_attempt] {
    if (attempt == its_attempt && !welcome) try_again(false);
  });
  if (!net.reaches(id, at) || cluster.node(at).host_down) return;
  net.after(net.milliseconds(10), [this, at, its_attempt] { on_node([=, this] { reach(at, its_attempt); }); });
}

void EtcdAgent::reach(NodeId at, int its_attempt) {
  if (!is_present() || attempt != its_attempt) return;
  EtcdAgent& there = cluster.node(at);
  if (!there.listens()) return try_again(there.refuses() && at == coordinator_);
  link = net.open(id, at);
  on_hello_sent();
  net.send(link, at, [this, &there, link = link, record = newest] {
    there.on_node([this, &there, link, record] { there.on_hello(id, link, record); });
  });
}

// What was sent before arrives before.
void EtcdAgent::hang_up(Network::LinkId its_link) {
  const NodeId other = net.other_end(its_link, id);
  if (other == 0 || host_down) return;
  net.send(its_link, other, [&there = cluster.node(other), its_link] {
    there.on_node([&there, its_link] { there.on_closed(its_link); });
  });
}

void EtcdAgent::on_closed(Network::LinkId its_link) {
  if (link == its_link) return try_again(false);
  const auto leads = leadership;
  if (!leads) return;
  for (const auto& [peer, its] : leads->peers)
    if (its == its_link) return leads->lose(NodeId(peer), "its connection was closed");
}

void EtcdAgent::disconnect() {
  if (const Network::LinkId before = forget_link()) hang_up(before);
}

void EtcdAgent::try_again(bool gone) {
  if (!is_present()) return;
  disconnect();
  ++turn;
  after(pause_, [this, its_attempt = attempt] {
    if (attempt == its_attempt) connect();
  });
  pause_ = std::min<Duration>(2 * pause_, kPauseLongest);
  if (end) set_leave_deadline();
  etcd.on(HolderDisconnected{gone, std::max(heard_at, leadership ? now() : led_at)});
  if (is_present() && left && !supervisor.round_with_workers())
    dispatch(agent::JobEnded{{Verdict::interrupted, SIGTERM, "interrupted", {}}});
}

void EtcdAgent::on_hello(NodeId from, Network::LinkId by, const RecordId& record) {
  if (leadership && record > leadership->newest) step_down();
  if (!leadership && end) return answer(from, by, EndJob{*end, true});
  if (!leadership) return answer(from, by, elsewhere_);
  const auto leads = leadership;
  if (leads->peers.contains(from)) leads->lose(from, "it reconnected");
  if (leadership != leads) return;
  leads->add(from, by);
  answer(from, by, Welcome{"", kLease, leads->coordinator.term(), leads->quorum_age(), id});
}

void EtcdAgent::answer(NodeId to, Network::LinkId by, const ToAgent& sent) {
  const auto message = std::make_shared<const ToAgent>(sent);
  net.send(by, to, [this, &there = cluster.node(to), by, message] {
    there.on_node([this, &there, by, message] { there.on_answer(*this, by, *message); });
  });
}

void EtcdAgent::on_answer(const EtcdAgent& from, Network::LinkId by, const ToAgent& message) {
  if (!is_present() || link != by) return;
  if (const auto* elsewhere = std::get_if<Elsewhere>(&message)) return on_elsewhere(*elsewhere, from.elsewhere_at_);
  if (const auto* welcomed = std::get_if<Welcome>(&message)) return on_welcome(*welcomed);
  on_message(message);
}

void EtcdAgent::on_welcome(const Welcome& message) {
  welcome = true;
  coordinator_ = welcomed_by_ = message.coordinator;
  turn = referrals_ = 0;
  pause_ = kPauseLeast;
  heard_at = now();
  answered_ = 0;
  on_contact(0, message.quorum_age);
  const int its_attempt = attempt;
  schedule_heartbeat(its_attempt);
  etcd.on(HolderConnected{message.coordinator, message.term});
  if (attempt != its_attempt) return;
  if (message.coordinator != id) {
    elsewhere_ = {.term = message.term, .agent = id};
    elsewhere_at_ = message.coordinator;
  }
  leave_deadline_ = TimePoint::max();
  if (end) return to_coordinator(JobWasOver{id, *end});
  report_back();
}

void EtcdAgent::on_lease_over() {
  contact_.reset();
  if (!running.empty()) {
    note("no contact for a lease");
    require(cluster.is_troubled() || !supervisor.running_round(), "no worker is ended for etcd's sake");
  }
  if (cluster.options.bug != EtcdBug::no_fence) dispatch(agent::Isolated{});
  if (link) try_again(false);
}

void EtcdAgent::on_elsewhere(const Elsewhere& referral, NodeId at) {
  try_again(welcomed_by_ != 0 && referral.agent != welcomed_by_);
  if (!is_present() || at == 0 || referral.term < newest.term || at == coordinator_ || ++referrals_ > 4) return;
  const int before = referrals_;
  connect_to(at);
  referrals_ = before;
}

void EtcdAgent::to_coordinator(const FromAgent& message) {
  if (!welcome) return;
  const NodeId at = net.other_end(link, id);
  net.send(link, at, [this, &there = cluster.node(at), link = link, message] {
    there.on_node([this, &there, link, message] {
      if (const auto leads = there.leadership; leads && leads->holds(id, link)) leads->on_message(id, message);
    });
  });
}

void EtcdAgent::send_signal() {
  if (left) to_coordinator(NodeLeaves{id, SIGTERM});
}

void EtcdAgent::on_message(const ToAgent& message) {
  if (contact_ && now() >= *contact_ + kLease) return on_lease_over();
  heard_at = now();
  std::visit(overloaded{
                 [&](const HeartbeatAnswer& m) { on_contact(m.number, m.quorum_age); },
                 [&](const KeepRecord& m) {
                   keep_places(m.record.nodes, 0);
                   if (!m.record.find(id)) on_round(m.record.id(), -1);
                 },
                 [&](const TakeSeat& m) {
                   on_round({m.term, m.seat.round}, m.seat.group_rank);
                   offer.rounds = m.seat.round;
                   dispatch(agent::RoundFormed{m.seat});
                 },
                 [&](const StartRound& m) { dispatch(agent::RoundStarted{m.round}); },
                 [&](const EndRound& m) {
                   dispatch(agent::RoundEnded{m.round, m.planned});
                 },
                 [&](const EndJob& m) { on_end(m); },
                 [&](const AllNotified&) { all_notified_ = true; },
                 [](const auto&) {},
             },
             message);
}

void EtcdAgent::on_round(const RecordId& round, int group_rank) {
  newest = std::max(newest, round);
  etcd.on(RoundSeen{round, group_rank});
}

void EtcdAgent::on_end(const EndJob& message) {
  if (!cluster.end && coordinator_ != id && (message.for_all || message.outcome.late)) cluster.end = message.outcome;
  on_job_end(message);
}

// A worker fails within its first twenty seconds, or ends well when all faults are over.
void EtcdAgent::start(const Seat& seat) {
  round_ = newest;
  cluster.check_start(id, round_);
  const auto failing = cluster.failing.find(round_);
  const TimePoint over = cluster.last_fault() + kWorkersGoOn;
  for (int rank = 0; rank < seat.workers; ++rank) {
    running.insert(rank);
    dispatch(agent::WorkerStarted{seat.round, rank});
    const bool fails = rank == 0 && failing != cluster.failing.end() && failing->second == id;
    const Duration lasts =
        fails ? net.milliseconds(20'000) : std::max<Duration>(over - net.now(), 5s) + net.milliseconds(5'000);
    net.after(lasts, [this, of_round = round_, rank, fails] { end_worker(of_round, rank, {.code = fails ? 1 : 0}); });
  }
}

void EtcdAgent::signal_workers(int number) {
  for (const int rank : running) {
    const bool ignores = (id + static_cast<NodeId>(rank + round_.round)) % cluster.options.stubborn_one_in == 0;
    if (ignores && number != SIGKILL) continue;
    net.after(net.milliseconds(500),
              [this, of_round = round_, rank, number] { end_worker(of_round, rank, {.signal = number}); });
  }
}

void EtcdAgent::end_worker(const RecordId& of_round, int local_rank, const ExitStatus& status) {
  if (round_ != of_round || !running.erase(local_rank)) return;
  on_node([=, this] { dispatch(agent::WorkerExited{of_round.round, local_rank, status}); });
}

void EtcdAgent::leave() {
  etcd.leave();
  if (leadership && !leadership->coordinator.is_over()) stop_leading();
}

bool EtcdAgent::may_exit() const { return (!leadership || leadership->all_left()) && etcd.may_exit(); }

void EtcdAgent::exit() {
  note("exits");
  leadership.reset();
  cluster.etcd.stop_watch(id);
  cluster.keys_stay |= etcd.keeps_key();
  if (!cluster.present_nodes().empty() || cluster.last_end != Verdict::success) return;
  net.after(kVanishWithin, [this] {
    const bool gone = !cluster.etcd.has_coordinator() && !cluster.etcd.record();
    require(gone || cluster.keys_stay || !cluster.present_nodes().empty(), "keys vanish after the end");
  });
}

}  // namespace ddprun::test
