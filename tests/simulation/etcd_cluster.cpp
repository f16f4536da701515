#include "tests/simulation/etcd_cluster.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kHeartbeatEvery = Duration(kLease) / 4, kLeaseCheckEvery = Duration(kLease) / 10, kPauseLeast = 50ms,
                   kPauseLongest = 1s, kAttemptLimit = 5s, kExitLimit = 30s, kRequestLimit = 4s,
                   kSlowRequestLimit = 10s;
constexpr Duration kSettles = 60s;      // after trouble: until rounds run as before
constexpr Duration kWorkersGoOn = 30s;  // after the last fault
constexpr Duration kEndWithin = 700s;   // after that
constexpr Duration kVanishWithin = 150s, kKilledWithin = 500ms, kLetGoEvery = 500ms;
constexpr int kLetGoTries = 6;
constexpr double kClockErrorOfMachines = 1.05;  // kLeaseMargin is for that and for ending workers
constexpr int kSlowMostMs = 9'000;
constexpr int kShortCutMs = 20'000, kLongFaultMs = 60'000, kRestartMs = 10'000;
constexpr int kEventsMost = 3'000'000;

void require(bool holds, const std::string& words) {
  if (!holds) throw std::logic_error("broken: " + words);
}

RoundPolicy policy_on_etcd(const EtcdClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .restarts = {.max_restarts = 1'000'000, .credit_after = {}},
          .exclusion = {.failures = 0},
          .last_call = options.last_call,
          .record_outside = true};
}

ControlAddress address_of(NodeId id) { return {"node" + std::to_string(id), 1}; }
NodeId node_at(const ControlAddress& address) { return std::stoull(address.host.substr(4)); }

std::string named(const RecordId& id) {
  return "round " + std::to_string(id.round) + " of term " + std::to_string(id.term);
}

Duration scaled(Duration time, double by) {
  return Duration(static_cast<Duration::rep>(static_cast<double>(time.count()) * by));
}

}  // namespace

EtcdCluster::EtcdCluster(const EtcdClusterOptions& options)
    : options_(options),
      net_(options.seed),
      etcd_(net_, options.etcd_rate.value_or(rate_of_etcd(options.clock_error)), options.bug) {
  for (int i = 0; i < options.agents; ++i) net_.after(net_.milliseconds(2'000), [this] { add_node(); });
  schedule_faults();
}

double EtcdCluster::rate_of_etcd(double error) {
  const double rate = 1 + (error - 1) * net_.up_to(1000) / 1000.0;
  return net_.chance(0.5) ? rate : 1 / rate;
}

NodeId EtcdCluster::add_node() {
  const NodeId id = nodes_.size() + 1;
  nodes_.push_back(std::make_unique<Node>(id, options_.seed));
  Node& self = node(id);
  const int kind = net_.up_to(3);
  self.rate = kind == 0 ? 1 : 1 + (kClockErrorOfMachines - 1) * (kind == 1 ? 1000 : net_.up_to(1000)) / 1000.0;
  self.base = std::chrono::hours(1000 + net_.up_to(1000));
  self.offer = {
      .workers = 1 + net_.up_to(1), .host = "node" + std::to_string(id), .port = 1, .control = address_of(id)};
  etcd_.watch(id, [this, id](const EtcdKeys& seen) { on_node(id, [this, id, seen] { elect(id, HolderSeen{seen}); }); });
  self.elsewhere.agent = id;
  schedule_election(id);
  return id;
}

TimePoint EtcdCluster::now(NodeId id) {
  const Node& self = node(id);
  return TimePoint() + self.base + scaled(net_.now().time_since_epoch(), self.rate);
}

void EtcdCluster::on_node(NodeId id, const std::function<void()>& what) {
  if (!listens(id)) return;
  if (is_paused(id)) return node(id).to_do.push_back(what);
  what();
}

void EtcdCluster::after(NodeId id, Duration by_its_clock, const std::function<void()>& what) {
  net_.after(1ns + scaled(std::max(by_its_clock, Duration::zero()), 1 / node(id).rate), [this, id, what] {
    if (is_paused(id) && listens(id)) return node(id).due.push_back(what);
    on_node(id, what);
  });
}

void EtcdCluster::at_time(NodeId id, TimePoint by_its_clock, const std::function<void()>& what) {
  after(id, by_its_clock - now(id), what);
}

void EtcdCluster::run(std::optional<Duration> until) {
  const TimePoint late = last_fault() + kWorkersGoOn + kEndWithin;
  for (int events = 0; net_.step(); ++events) {
    if (until && net_.now() >= TimePoint() + *until) return;
    require(events < kEventsMost, "the job comes to an end");
    require(net_.now() < late || present_nodes().empty(), "the job goes on to its end once all faults are over");
  }
}

// Who decided the end may have died, or been out of reach of some, before etcd had it: then the job ends once more.
void EtcdCluster::check_end() {
  require(end_ || lost_data_, "the job ends");  // without its keys it may go on nowhere
  const bool is_written = end_ && etcd_.first_end() && etcd_.first_end()->reason == end_->reason;
  std::optional<Verdict> verdict;
  for (const auto& one : nodes_) {
    require(one->running.empty(), "no worker is left at the end");
    if (!one->in_last_round || !one->alive || one->left || lost_data_ || !is_written) continue;
    require(one->finished_with && one->finished_with->verdict == verdict.value_or(one->finished_with->verdict),
            "all nodes learn the same end, node" + std::to_string(one->id) + " too");
    verdict = one->finished_with->verdict;
  }
}

void EtcdCluster::note(const std::string& line) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(net_.now().time_since_epoch()).count();
  transcript_ += std::to_string(ms) + " ms  " + line + "\n";
}

std::vector<NodeId> EtcdCluster::present_nodes() {
  std::vector<NodeId> out;
  for (const auto& one : nodes_)
    if (is_present(one->id)) out.push_back(one->id);
  return out;
}

// Faults.

void EtcdCluster::schedule_faults() {
  schedule_fault(options_.kills, &EtcdCluster::kill);
  schedule_fault(options_.pauses, &EtcdCluster::pause);
  schedule_fault(options_.leaves, &EtcdCluster::leave_job);
  schedule_fault(options_.cuts, &EtcdCluster::cut_nodes);
  schedule_fault(options_.etcd_cuts, &EtcdCluster::cut_etcd);
  schedule_fault(options_.both_cuts, &EtcdCluster::cut_both);
  schedule_fault(options_.divisions, &EtcdCluster::divide);
  const auto at_some_time = [this](int times, const std::function<void()>& what) {
    for (int i = 0; i < times; ++i) net_.after(net_.milliseconds(options_.period_ms), what);
  };
  at_some_time(options_.joins, [this] {
    if (!end_) note(add_node(), "comes");
  });
  at_some_time(options_.strangers, [this] {
    if (end_) return;
    const NodeId id = add_node();
    note(id, "comes, and reaches etcd alone");
    net_.put(id, ++sides_);
    net_.after(last_fault() - net_.now(), [this, id] { net_.put(id, 0); });
  });
  at_some_time(options_.outages, [this] {
    note("etcd is down");
    etcd_.go_down(net_.milliseconds(kLongFaultMs));
  });
  at_some_time(options_.slow_phases, [this] {
    note("etcd is slow");
    const Duration lasts = net_.milliseconds(kLongFaultMs);
    const bool for_some = net_.chance(0.5);
    const int most_ms = 1'000 + net_.up_to(kSlowMostMs);
    for (const NodeId id : present_nodes())
      if (!for_some || net_.chance(0.5)) etcd_.be_slow(id, lasts, most_ms);
  });
  at_some_time(options_.leader_changes, [this] { etcd_.change_leader(); });
  if (options_.loses_data)
    net_.after(kSettles / 2 + net_.milliseconds(options_.period_ms), [this] {
      note("etcd loses all its data");
      lost_data_ = true;
      etcd_.lose_data();
    });
  at_some_time(options_.all_die ? 1 : 0, [this] { all_die(); });
}

void EtcdCluster::schedule_fault(int times, void (EtcdCluster::*fault)(NodeId)) {
  for (int i = 0; i < times; ++i)
    net_.after(net_.milliseconds(options_.period_ms), [this, fault] {
      const auto all = present_nodes();
      if (all.empty() || end_) return;
      const auto leader = std::find_if(all.begin(), all.end(), [this](NodeId id) { return node(id).leadership; });
      const bool hits = leader != all.end() && net_.chance(options_.coordinator_share);
      (this->*fault)(hits ? *leader : all[net_.draw() % all.size()]);
    });
}

void EtcdCluster::trouble(Duration lasts) { trouble_until_ = std::max(trouble_until_, net_.now() + lasts + kSettles); }

// Before a round has formed, contact with etcd alone counts: the lease may be nearly over when it starts.
bool EtcdCluster::is_troubled() const {
  return net_.now() < trouble_until_ || end_ || net_.now() < round_began_ + kLease;
}

void EtcdCluster::kill(NodeId id) {
  die(id, net_.chance(options_.silent));
  net_.after(net_.milliseconds(kRestartMs), [this, id] {
    if (!end_) note(add_node(), "is started instead of node" + std::to_string(id));
  });
}

// Its keeper kills its workers. The kernel closes its connections and refuses others, if the host lives.
void EtcdCluster::die(NodeId id, bool silent) {
  trouble({});
  Node& victim = node(id);
  note(id, silent ? "its host is gone" : "its agent is killed");
  victim.alive = false;
  victim.host_down = silent;
  etcd_.stop_watch(id);
  if (silent) victim.running.clear();
  net_.after(net_.milliseconds(20), [this, id] { node(id).running.clear(); });
  if (victim.link) hang_up(id, victim.link);
  if (victim.leadership)
    for (const auto& [peer, link] : victim.leadership->peers) hang_up(id, link);
  victim.leadership.reset();
}

void EtcdCluster::kill_coordinator() {
  for (const NodeId id : present_nodes())
    if (node(id).leadership) return die(id, false);
}

void EtcdCluster::pause(NodeId id) {
  if (is_paused(id)) return;
  Node& self = node(id);
  const Duration lasts = 1ms + net_.milliseconds(net_.chance(0.5) ? kShortCutMs : kLongFaultMs);
  note(id, "is paused");
  trouble(lasts);
  self.paused_until = net_.now() + lasts;
  net_.after(lasts, [this, id] {
    note(id, "goes on");
    Node& there = node(id);
    if (now(id) >= there.lease_ends) there.excused_until = net_.now() + kKilledWithin;
    const bool due_first = net_.chance(0.5);
    for (int i = 0; i < 2; ++i)
      for (auto& queue = (i == 0) == due_first ? there.due : there.to_do; !queue.empty();) {
        const auto next = std::move(queue.front());
        queue.pop_front();
        on_node(id, next);
      }
  });
}

void EtcdCluster::leave_job(NodeId id) {
  if (static_cast<int>(present_nodes().size()) < options_.nodes_min + 2 || node(id).left) return;
  trouble({});
  note(id, "SIGTERM");
  node(id).left = true;
  on_node(id, [this, id] { dispatch(id, agent::Signalled{SIGTERM}); });
}

void EtcdCluster::cut_nodes(NodeId id) {
  const int side = ++sides_;
  const Duration lasts = net_.milliseconds(kShortCutMs);
  trouble(lasts);
  for (const NodeId other : present_nodes())
    if (other == id || net_.chance(0.3)) {
      note(other, "is cut from the other nodes");
      net_.put(other, side);
      net_.after(lasts, [this, other] { net_.put(other, 0); });
    }
}

void EtcdCluster::cut_etcd(NodeId id) {
  const Duration lasts = std::min(net_.milliseconds(options_.etcd_cut_ms), last_fault() + kSettles - net_.now());
  for (const NodeId other : present_nodes())
    if (other == id || net_.chance(options_.cut_from_etcd_too)) {
      note(other, "is cut from etcd");
      etcd_.cut(other, lasts);
    }
}

void EtcdCluster::cut_both(NodeId id) {
  const Duration lasts = net_.milliseconds(kShortCutMs);
  note(id, "is cut from all");
  trouble(lasts);
  etcd_.cut(id, lasts);
  net_.put(id, ++sides_);
  net_.after(lasts, [this, id] { net_.put(id, 0); });
}

void EtcdCluster::divide(NodeId id) {
  const Duration lasts = std::chrono::milliseconds(kShortCutMs);
  note(id, "is cut from the other nodes, and those from etcd");
  trouble(lasts);
  net_.put(id, ++sides_);
  net_.after(lasts, [this, id] { net_.put(id, 0); });
  for (const NodeId other : present_nodes()) {
    if (node(other).leadership) etcd_.be_slow(other, lasts, 500 + net_.up_to(1'000));
    if (other != id && !node(other).leadership) etcd_.cut(other, lasts);
  }
}

void EtcdCluster::all_die() {
  if (end_) return;
  const bool silent = net_.chance(0.5);
  for (const NodeId id : present_nodes()) die(id, silent);
  for (int i = 0; i < options_.agents; ++i)
    net_.after(1s + net_.milliseconds(kRestartMs), [this] { note(add_node(), "begins anew"); });
}

// An agent and etcd.

void EtcdCluster::elect(NodeId id, const EtcdEvent& event) {
  if (!is_present(id)) return;
  for (const EtcdAction& action : node(id).election.on(event, now(id)))
    std::visit([&](const auto& a) { carry_out(id, a); }, action);
  schedule_election(id);
}

void EtcdCluster::schedule_election(NodeId id) {
  const auto deadline = node(id).election.next_deadline();
  if (!deadline || !is_present(id) || node(id).election_tick_at == deadline) return;
  node(id).election_tick_at = deadline;
  at_time(id, *deadline, [this, id, due = *deadline] {
    Node& self = node(id);
    if (self.election_tick_at != due) return;
    self.election_tick_at.reset();
    if (self.election.next_deadline() == due) elect(id, EtcdTick{});
    schedule_election(id);
  });
}

// It is sent again every second; each may be carried out.
template <class Answer>
void EtcdCluster::ask(NodeId id, EtcdRequest request,
                      const std::function<void(const std::function<void(Answer)>&)>& once) {
  const auto answered = std::make_shared<bool>(false);
  const Duration limit = node(id).etcd_is_slow ? kSlowRequestLimit : kRequestLimit;
  const auto done = [this, id, answered](const Answer& answer) {
    if (std::exchange(*answered, true)) return;
    node(id).etcd_is_slow = false;
    elect(id, answer);
  };
  once(done);
  for (Duration wait = kRequestLimit / 4; wait < limit; wait += kRequestLimit / 4)
    after(id, wait, [answered, once, done] {
      if (!*answered) once(done);
    });
  after(id, limit, [this, id, request, answered] {
    if (std::exchange(*answered, true)) return;
    node(id).etcd_is_slow = true;
    elect(id, RequestFailed{request});
  });
}

// `at_etcd` is carried out there, `then` here with its result.
template <class Result>
void EtcdCluster::trip(NodeId id, const std::function<Result()>& at_etcd, const std::function<void(Result)>& then) {
  etcd_.request(id, [this, id, at_etcd, then] {
    return [this, id, then, result = at_etcd()] { on_node(id, [then, result] { then(result); }); };
  });
}

void EtcdCluster::carry_out(NodeId id, const ReadKeys&) {
  ask<KeysRead>(id, EtcdRequest::read, [this, id](const std::function<void(KeysRead)>& done) {
    trip<EtcdKeys>(
        id, [this] { return etcd_.keys(true); }, [done](const EtcdKeys& keys) { done({keys}); });
  });
}

void EtcdCluster::carry_out(NodeId id, const ClaimKey& action) {
  note(id, "claims the key for term " + std::to_string(action.holder.term));
  const auto lease = std::make_shared<std::int64_t>(0);
  ClaimKey claim = action;
  claim.holder.places = {address_of(id)};
  ask<ClaimAnswered>(id, EtcdRequest::claim, [this, id, lease, claim](const std::function<void(ClaimAnswered)>& done) {
    const auto put = [this, id, lease, claim, done] {
      trip<ClaimAnswered>(
          id, [this, claim, lease] { return etcd_.claim(claim, *lease); }, done);
    };
    if (*lease) return put();
    trip<std::int64_t>(
        id, [this] { return etcd_.grant(kEtcdKeyLease); },
        [lease, put](std::int64_t granted) {
          if (!*lease) *lease = granted;
          put();
        });
  });
}

void EtcdCluster::carry_out(NodeId id, const RenewLease& action) {
  ask<RenewalAnswered>(id, EtcdRequest::renewal,
                       [this, id, fence = action.fence](const std::function<void(RenewalAnswered)>& done) {
                         const TimePoint sent_at = now(id);
                         const auto read = [this, id, fence, sent_at, done](bool kept) {
                           if (!kept) return done({sent_at, false});
                           trip<bool>(
                               id, [this, fence] { return etcd_.holds(fence); },
                               [this, id, sent_at, done](bool holds) {
                                 done({options_.bug == EtcdBug::lease_believed_after_pause ? now(id) : sent_at, holds});
                               });
                         };
                         trip<bool>(
                             id, [this, fence] { return etcd_.keep(etcd_.lease_of(fence)); }, read);
                       });
}

void EtcdCluster::carry_out(NodeId id, const StoreRecord& action) {
  const int call = ++calls_;
  ask<StoreAnswered>(id, EtcdRequest::store, [this, id, action, call](const std::function<void(StoreAnswered)>& done) {
    trip<StoreAnswered>(
        id, [this, action, call] { return etcd_.store(action, call); }, done);
  });
}

void EtcdCluster::carry_out(NodeId id, const ReleaseKey& action) {
  trip<bool>(
      id, [this, action] { return etcd_.release(action), true; }, [](bool) {});
}

void EtcdCluster::carry_out(NodeId id, const LeadJob& action) {
  stop_leading(id);
  Node& self = node(id);
  Succession from = action.from;
  note(id, "coordinates, from " + named(from.record.id()) + ", with term " + std::to_string(from.term));
  for (const auto& one : nodes_)
    require(is_troubled() || lost_data_ || !is_present(one->id) || !one->supervisor.running_round(),
            "no coordinator is replaced for etcd's sake");
  if (options_.bug == EtcdBug::no_wait_for_members && !from.record.find(id)) from.workers_until = now(id);
  from.over = self.end;
  begins_anew_ |= lost_data_ && action.begins;
  ++takeovers_;
  self.leadership.emplace(
      Leadership{Coordinator(policy_on_etcd(options_), now(id), options_.seed, id, from),
                 CoordinatorLiveness(kLease, id, [this, id] { return node(id).election.contact(); }),
                 ++serials_,
                 {from.term, from.record.number},
                 {},
                 from.record});
  self.leadership->liveness.begin();
  for (const RoundNode& member : from.record.nodes)
    if (member.id != id) probe(id, serials_, member.id);
  check_leases(id, serials_);
  schedule_coordinator_tick(id);
  self.holder = id;
  connect_to(id, id);
}

void EtcdCluster::carry_out(NodeId id, const RecordStored& action) {
  auto& leadership = node(id).leadership;
  if (!leadership) return;
  leadership->stored = action.id;
  if (!leadership->waits || leadership->stored != leadership->newest || quorum_age(id) > kLease) return;
  const Order order = *std::exchange(leadership->waits, std::nullopt);
  begin_round(id, order);
}

void EtcdCluster::carry_out(NodeId id, const StopLeading& action) {
  note(id, "coordinates no more");
  stop_leading(id);
  node(id).elsewhere = {.term = action.term, .agent = id};
}

void EtcdCluster::carry_out(NodeId id, const FollowHolder& action) {
  if (action.places.empty()) return;
  node(id).holder = node_at(action.places.front());
  connect_to(id, node(id).holder);
}

void EtcdCluster::carry_out(NodeId id, const LookForNodes& action) {
  Node& self = node(id);
  note(id, "looks for the nodes of " + named(self.newest));
  self.holder = action.nodes.front().id;
  self.fallbacks.clear();
  for (std::size_t i = 1; i < std::min<std::size_t>(8, action.nodes.size()); ++i)
    self.fallbacks.push_back(action.nodes[i].id);
  connect_to(id, self.holder);
  const int look = ++self.look;
  if (options_.bug == EtcdBug::no_wait_for_members)
    for (const RoundNode& other : action.nodes) elect(id, NodeGone{other.id});
  for (const RoundNode& other : action.nodes) probe_in_look(id, look, other.id);
}

void EtcdCluster::probe_in_look(NodeId id, int look, NodeId other) {
  after(id, 1ms + net_.milliseconds(100), [this, id, look, other] {
    Node& self = node(id);
    if (!is_present(id) || self.look != look || self.welcome || self.leadership) return;
    if (refuses(other) && net_.reaches(id, other)) return elect(id, NodeGone{other});
    after(id, 1s, [this, id, look, other] { probe_in_look(id, look, other); });
  });
}

void EtcdCluster::carry_out(NodeId id, const LearnEnd& action) {
  note(id, "learns from etcd that the job is over");
  on_job_end(id, {action.outcome, true});
  node(id).all_notified = true;
}

void EtcdCluster::carry_out(NodeId, const WrongMark&) { require(false, "all nodes have the same credentials"); }

void EtcdCluster::carry_out(NodeId id, const KeysAreGone&) {
  require(lost_data_ || end_, "keys do not vanish while the job goes on");
  note(id, "finds no keys");
  if (!node(id).end) dispatch(id, agent::JobEnded{{Verdict::out_of_reach, 0, "etcd knows nothing of the job", {}}});
}

// An agent's connection to the coordinator.

bool EtcdCluster::refuses(NodeId id) {
  const Node& there = node(id);
  return there.running.empty() && !there.host_down && (!there.alive || there.exited);
}

void EtcdCluster::connect_to(NodeId id, NodeId coordinator) {
  disconnect(id);
  Node& self = node(id);
  self.coordinator = coordinator;
  self.welcomed_by = 0;
  self.turn = self.referrals = 0;
  self.pause = kPauseLeast;
  connect(id);
}

void EtcdCluster::connect(NodeId id) {
  Node& self = node(id);
  if (!is_present(id) || self.link || self.holder + self.coordinator == 0) return;
  std::vector<NodeId> places{self.coordinator, self.holder ? self.holder : self.coordinator};
  places.insert(places.end(), self.fallbacks.begin(), self.fallbacks.end());
  const NodeId at = places[static_cast<std::size_t>(self.turn) % places.size()];
  const int attempt = ++self.attempt;
  after(id, kAttemptLimit, [this, id, attempt] {
    if (node(id).attempt == attempt && !node(id).welcome) try_again(id, false);
  });
  if (!net_.reaches(id, at) || node(at).host_down) return;
  net_.after(net_.milliseconds(10),
             [this, id, at, attempt] { on_node(id, [this, id, at, attempt] { reach(id, at, attempt); }); });
}

void EtcdCluster::reach(NodeId id, NodeId at, int attempt) {
  Node& self = node(id);
  if (!is_present(id) || self.attempt != attempt) return;
  if (!listens(at)) return try_again(id, refuses(at) && at == self.coordinator);
  self.link = net_.open(id, at);
  self.heartbeats_sent = {{0, now(id)}};
  net_.send(self.link, at, [this, id, at, link = self.link, record = self.newest] {
    on_node(at, [this, at, id, link, record] { on_hello(at, id, link, record); });
  });
}

// What was sent before arrives before.
void EtcdCluster::hang_up(NodeId id, Network::LinkId link) {
  const NodeId other = net_.other_end(link, id);
  if (other == 0 || node(id).host_down) return;
  net_.send(link, other, [this, other, link] { on_node(other, [this, other, link] { closed(other, link); }); });
}

void EtcdCluster::closed(NodeId id, Network::LinkId link) {
  Node& self = node(id);
  if (self.link == link) return try_again(id, false);
  if (!self.leadership) return;
  for (const auto& [peer, its] : self.leadership->peers)
    if (its == link) return lose(id, peer, "its connection was closed");
}

void EtcdCluster::disconnect(NodeId id) {
  Node& self = node(id);
  const Network::LinkId link = std::exchange(self.link, 0);
  ++self.attempt;
  self.welcome = false;
  self.heartbeats_sent.clear();
  if (link) hang_up(id, link);
}

void EtcdCluster::try_again(NodeId id, bool gone) {
  Node& self = node(id);
  if (!is_present(id)) return;
  disconnect(id);
  ++self.turn;
  after(id, self.pause, [this, id, attempt = self.attempt] {
    if (node(id).attempt == attempt) connect(id);
  });
  self.pause = std::min<Duration>(2 * self.pause, kPauseLongest);
  if (self.end) self.leave_deadline = std::min(self.leave_deadline, now(id) + kLease + kLeaseMargin);
  const TimePoint led_at = self.leadership ? now(id) : self.led_at;
  elect(id, HolderDisconnected{gone, std::max(self.heard_at, led_at)});
  if (is_present(id) && self.left && !self.supervisor.round_with_workers())
    dispatch(id, agent::JobEnded{{Verdict::interrupted, SIGTERM, "interrupted", {}}});
}

void EtcdCluster::on_welcome(NodeId id, const Welcome& welcome) {
  Node& self = node(id);
  self.welcome = true;
  self.coordinator = self.welcomed_by = welcome.coordinator;
  self.turn = self.referrals = 0;
  self.pause = kPauseLeast;
  self.heard_at = now(id);
  self.answered = 0;
  on_contact(id, 0, welcome.quorum_age);
  const int attempt = self.attempt;
  schedule_heartbeat(id, attempt);
  elect(id, HolderConnected{welcome.coordinator, welcome.term});
  if (self.attempt != attempt) return;
  if (welcome.coordinator != id) {
    self.elsewhere = {.term = welcome.term, .agent = id};
    self.elsewhere_at = welcome.coordinator;
  }
  self.leave_deadline = TimePoint::max();
  if (self.end) return to_coordinator(id, JobWasOver{id, *self.end});
  if (const auto round = self.supervisor.round_with_workers())
    to_coordinator(id, NodeBack{id, *round, self.offer});
  else
    to_coordinator(id, NodeReady{id, self.offer});
  if (self.left) to_coordinator(id, NodeLeaves{id, SIGTERM});
}

void EtcdCluster::on_contact(NodeId id, std::uint64_t answered, Duration age) {
  Node& self = node(id);
  const auto heartbeat = self.heartbeats_sent.find(answered);
  if (heartbeat == self.heartbeats_sent.end()) return;
  self.answered = answered;
  self.contact = std::max(self.contact, std::optional(heartbeat->second - age));
  self.heartbeats_sent.erase(self.heartbeats_sent.begin(), std::next(heartbeat));
  watch_lease(id);
}

void EtcdCluster::watch_lease(NodeId id) {
  const TimePoint due = *node(id).contact + kLease;
  node(id).lease_ends = due;
  at_time(id, due, [this, id, due] {
    Node& self = node(id);
    if (is_present(id) && self.contact && *self.contact + kLease == due) isolate(id);
  });
}

void EtcdCluster::isolate(NodeId id) {
  Node& self = node(id);
  self.contact.reset();
  if (!self.running.empty()) {
    note(id, "no contact for a lease");
    require(is_troubled() || !self.supervisor.running_round(), "no worker is ended for etcd's sake");
  }
  if (options_.bug != EtcdBug::no_fence) dispatch(id, agent::Isolated{});
  if (self.link) try_again(id, false);
}

void EtcdCluster::schedule_heartbeat(NodeId id, int attempt) {
  after(id, kHeartbeatEvery, [this, id, attempt] {
    Node& self = node(id);
    if (!is_present(id) || self.attempt != attempt || !self.welcome) return;
    self.heartbeats_sent[++self.last_heartbeat] = now(id);
    to_coordinator(id, Heartbeat{self.last_heartbeat, self.answered, {}});
    schedule_heartbeat(id, attempt);
  });
}

void EtcdCluster::on_elsewhere(NodeId id, const Elsewhere& referral, NodeId at) {
  const bool replaced = node(id).welcomed_by != 0 && referral.agent != node(id).welcomed_by;
  try_again(id, replaced);
  Node& self = node(id);
  if (!is_present(id) || at == 0 || referral.term < self.newest.term || at == self.coordinator || ++self.referrals > 4)
    return;
  const int before = self.referrals;
  connect_to(id, at);
  self.referrals = before;
}

void EtcdCluster::to_coordinator(NodeId id, const FromAgent& message) {
  Node& self = node(id);
  if (!self.welcome) return;
  const NodeId at = net_.other_end(self.link, id);
  net_.send(self.link, at, [this, at, id, link = self.link, message] {
    on_node(at, [this, at, id, link, message] {
      const auto& leadership = node(at).leadership;
      const auto peer = leadership ? leadership->peers.find(id) : std::map<NodeId, Network::LinkId>::const_iterator();
      if (leadership && peer != leadership->peers.end() && peer->second == link) on_message(at, id, message);
    });
  });
}

void EtcdCluster::on_message(NodeId id, const ToAgent& message) {
  Node& self = node(id);
  if (self.contact && now(id) >= *self.contact + kLease) return isolate(id);
  self.heard_at = now(id);
  std::visit(overloaded{
                 [&](const HeartbeatAnswer& m) { on_contact(id, m.number, m.quorum_age); },
                 [&](const KeepRecord& m) {
                   self.fallbacks.clear();
                   for (std::size_t i = 0; i < std::min<std::size_t>(8, m.record.nodes.size()); ++i)
                     self.fallbacks.push_back(m.record.nodes[i].id);
                   if (!m.record.find(id)) on_round(id, m.record.id(), -1);
                 },
                 [&](const TakeSeat& m) {
                   on_round(id, {m.term, m.seat.round}, m.seat.group_rank);
                   self.offer.rounds = m.seat.round;
                   dispatch(id, agent::RoundFormed{m.seat});
                 },
                 [&](const StartRound& m) { dispatch(id, agent::RoundStarted{m.round}); },
                 [&](const EndRound& m) {
                   dispatch(id, agent::RoundEnded{m.round, m.planned});
                 },
                 [&](const EndJob& m) { on_job_end(id, m); },
                 [&](const AllNotified&) { self.all_notified = true; },
                 [](const auto&) {},
             },
             message);
}

void EtcdCluster::on_round(NodeId id, const RecordId& round, int group_rank) {
  node(id).newest = std::max(node(id).newest, round);
  elect(id, RoundSeen{round, group_rank});
}

void EtcdCluster::on_job_end(NodeId id, const EndJob& message) {
  Node& self = node(id);
  if (!end_ && self.coordinator != id && (message.for_all || message.outcome.late)) end_ = message.outcome;
  if (message.for_all) {
    to_coordinator(id, NodeNotified{id});
    if (std::exchange(self.end, self.end ? self.end : message.outcome)) return;
    if (!self.welcome) self.leave_deadline = std::min(self.leave_deadline, now(id) + kLease + kLeaseMargin);
  }
  dispatch(id, agent::JobEnded{message.outcome});
}

// The coordinator's side.

void EtcdCluster::stop_leading(NodeId id) {
  Node& self = node(id);
  self.elsewhere_at = 0;
  if (!self.leadership) return;
  self.led_at = now(id);
  const auto peers = std::move(self.leadership->peers);
  self.elsewhere = {.term = self.leadership->coordinator.term(), .agent = id};
  self.leadership.reset();
  for (const auto& [peer, link] : peers) send(id, peer, link, self.elsewhere);
}

void EtcdCluster::step_down(NodeId id) {
  stop_leading(id);
  elect(id, SteppedDown{});
}

void EtcdCluster::on_hello(NodeId at, NodeId id, Network::LinkId link, const RecordId& record) {
  Node& host = node(at);
  if (host.leadership && record > host.leadership->newest) step_down(at);
  if (!host.leadership && host.end) return send(at, id, link, EndJob{*host.end, true});
  if (!host.leadership) return send(at, id, link, host.elsewhere);
  if (host.leadership->peers.contains(id)) lose(at, id, "it reconnected");
  if (!host.leadership) return;
  host.leadership->peers[id] = link;
  host.leadership->liveness.add(id, now(at));
  to_node(at, id, Welcome{"", kLease, host.leadership->coordinator.term(), quorum_age(at), at});
}

void EtcdCluster::on_message(NodeId at, NodeId id, const FromAgent& message) {
  Leadership& leadership = *node(at).leadership;
  leadership.liveness.heard(id, now(at));
  std::visit(overloaded{
                 [](const Hello&) {},
                 [](const FailureText&) {},
                 [](const VoteRequest&) {},
                 [](const CoordinatorAnnouncement&) {},
                 [](const ClientRequest&) {},
                 [&](const Heartbeat& m) {
                   leadership.liveness.on_heartbeat(id, m, now(at));
                   to_node(at, id, HeartbeatAnswer{m.number, quorum_age(at), {}});
                 },
                 [&](const NodeReady& m) {
                   coordinate(at, m);
                   const auto& then = node(at).leadership;
                   if (then && then->record && !then->record->find(id)) to_node(at, id, KeepRecord{*then->record});
                 },
                 [&](const auto& m) { coordinate(at, m); },
             },
             message);
}

void EtcdCluster::lose(NodeId at, NodeId id, const std::string& how) {
  Leadership& leadership = *node(at).leadership;
  hang_up(at, leadership.peers.extract(id).mapped());
  const int serial = leadership.serial;
  coordinate(at, NodeLost{id, leadership.liveness.remove(id), how});
  probe(at, serial, id);
}

// Repeats until it is refused, or the node is back.
void EtcdCluster::probe(NodeId at, int serial, NodeId id) {
  after(at, 1ms + net_.milliseconds(100), [this, at, serial, id] {
    Node& host = node(at);
    if (!host.leadership || host.leadership->serial != serial || !host.leadership->coordinator.awaits(id)) return;
    if (host.leadership->peers.contains(id)) return;
    if (refuses(id) && net_.reaches(at, id)) return coordinate(at, NodeGone{id});
    after(at, 1s, [this, at, serial, id] { probe(at, serial, id); });
  });
}

void EtcdCluster::check_leases(NodeId at, int serial) {
  Node& host = node(at);
  const auto leads = [&] { return host.leadership && host.leadership->serial == serial; };
  if (!leads()) return;
  if (!host.leadership->coordinator.is_over() && quorum_age(at) > kLease) {
    note(at, "stops coordinating: neither etcd nor all nodes are in reach");
    return step_down(at);
  }
  for (const NodeId id : host.leadership->liveness.silent(now(at)))
    if (leads()) lose(at, id, "no heartbeat for 5 s");
  after(at, kLeaseCheckEvery, [this, at, serial] { check_leases(at, serial); });
}

Duration EtcdCluster::quorum_age(NodeId at) {
  Leadership& leadership = *node(at).leadership;
  return leadership.liveness.quorum_age(leadership.coordinator, now(at));
}

void EtcdCluster::coordinate(NodeId at, const Message& message) {
  if (!node(at).leadership) return;
  const int serial = node(at).leadership->serial;
  const auto leads = [&] { return node(at).leadership && node(at).leadership->serial == serial; };
  for (const Order& order : node(at).leadership->coordinator.on(message, now(at)))
    if (leads()) execute(at, order);
  if (!leads()) return;
  schedule_coordinator_tick(at);
  Leadership& leadership = *node(at).leadership;
  const int changes = leadership.coordinator.changes();
  const bool ends = leadership.coordinator.is_over() && !std::exchange(leadership.told_end, true);
  if (std::exchange(leadership.ledger_changes, changes) != changes || ends) report_record(at);
}

void EtcdCluster::report_record(NodeId at) {
  Leadership& leadership = *node(at).leadership;
  leadership.outside.ledger = leadership.coordinator.ledger_record(now(at));
  const Outcome* over = leadership.coordinator.outcome();
  net_.after({}, [this, at, record = leadership.outside, over = over ? std::optional(*over) : std::nullopt] {
    on_node(at, [this, at, record, over] { elect(at, RecordChanged{record, over}); });
  });
}

void EtcdCluster::begin_round(NodeId at, const Order& order) {
  Leadership& leadership = *node(at).leadership;
  if (leadership.stored != leadership.newest && options_.bug != EtcdBug::not_held_until_stored)
    return void(leadership.waits = order);
  if (std::holds_alternative<StartRound>(order)) return to_round(at, std::get<StartRound>(order));
  note(at, "hands over");
  step_down(at);
}

void EtcdCluster::execute(NodeId at, const Order& order) {
  Leadership& leadership = *node(at).leadership;
  const auto to_all = [&](const ToAgent& message) {
    for (const auto& [id, link] : leadership.peers) send(at, id, link, message);
  };
  std::visit(overloaded{
                 [&](const FormRound& o) { form(at, o.round); },
                 [&](const StartRound& o) { begin_round(at, o); },
                 [&](const HandOver& o) { begin_round(at, o); },
                 [&](const EndRound& o) {
                   note(named(leadership.newest) + " ends: " + o.reason);
                   leadership.waits.reset();
                   to_round(at, o);
                 },
                 [&](const EndJob& o) {
                   note("the job ends: " + o.outcome.reason);
                   last_end_ = o.outcome.verdict;
                   if (!end_ && quorum_age(at) <= kLease) {  // not one that was paused, and is not in charge any more
                     end_ = o.outcome;
                     for (const auto& [id, link] : leadership.peers) node(id).in_last_round = true;
                     if (net_.chance(options_.kill_at_end))
                       net_.after(net_.milliseconds(30), [this, at] {
                         if (!listens(at)) return;
                         keys_stay_ = true;
                         die(at, net_.chance(options_.silent));
                       });
                   }
                   to_all(o);
                 },
                 [&](const AllNotified& o) { to_all(o); },
                 [&](const Recall& o) {
                   to_node(at, o.node, EndRound{o.round, false, o.reason});
                 },
                 [&](const Dismiss& o) {
                   to_node(at, o.node, EndJob{o.outcome, o.for_all});
                 },
                 [](const auto&) {},
             },
             order);
}

void EtcdCluster::form(NodeId at, const Round& round) {
  Leadership& leadership = *node(at).leadership;
  leadership.newest = round.id();
  note(named(round.id()) + " forms of " + std::to_string(round.nodes.size()) + " nodes, at node" + std::to_string(at));
  leadership.record = leadership.outside = round;
  leadership.waits.reset();
  report_record(at);
  if (net_.chance(options_.failure)) failing_[round.id()] = round.nodes[net_.draw() % round.nodes.size()].id;
  const std::vector<Seat> all = seats(round);
  for (const auto& [id, link] : leadership.peers)
    if (const int rank = round.group_rank(id); rank < static_cast<int>(kStandbys))
      send(at, id, link, KeepRecord{round});
  for (std::size_t i = 0; i < all.size(); ++i) to_node(at, round.nodes[i].id, TakeSeat{all[i], round.term});
}

void EtcdCluster::to_round(NodeId at, const ToAgent& message) {
  const auto& record = node(at).leadership->record;
  if (!record) return;
  for (const RoundNode& member : record->nodes) to_node(at, member.id, message);
}

void EtcdCluster::to_node(NodeId at, NodeId id, const ToAgent& message) {
  const auto& peers = node(at).leadership->peers;
  if (const auto peer = peers.find(id); peer != peers.end()) send(at, id, peer->second, message);
}

void EtcdCluster::send(NodeId at, NodeId id, Network::LinkId link, const ToAgent& sent) {
  const auto message = std::make_shared<const ToAgent>(sent);
  net_.send(link, id, [this, at, id, link, message] {
    on_node(id, [this, at, id, link, message] {
      if (!is_present(id) || node(id).link != link) return;
      if (const auto* elsewhere = std::get_if<Elsewhere>(message.get()))
        return on_elsewhere(id, *elsewhere, node(at).elsewhere_at);
      if (const auto* welcome = std::get_if<Welcome>(message.get())) return on_welcome(id, *welcome);
      on_message(id, *message);
    });
  });
}

void EtcdCluster::schedule_coordinator_tick(NodeId at) {
  Leadership& leadership = *node(at).leadership;
  const auto deadline = leadership.coordinator.next_deadline();
  if (!deadline || leadership.tick_at == deadline) return;
  leadership.tick_at = deadline;
  at_time(at, *deadline, [this, at, due = *deadline, serial = leadership.serial] {
    auto& then = node(at).leadership;
    if (!then || then->serial != serial) return;
    if (then->tick_at == due) then->tick_at.reset();
    if (then->coordinator.next_deadline() == due) coordinate(at, CoordinatorTick{});
  });
}

// The node's workers.

void EtcdCluster::dispatch(NodeId id, const agent::Event& event) {
  Node& self = node(id);
  if (!is_present(id)) return;
  self.events.push_back(event);
  if (std::exchange(self.handling, true)) return;
  for (; !self.events.empty(); self.events.pop_front())
    for (const agent::Action& action : self.supervisor.on(self.events.front(), now(id))) execute(id, action);
  self.handling = false;
  schedule_tick(id);
}

void EtcdCluster::execute(NodeId id, const agent::Action& action) {
  Node& self = node(id);
  std::visit(overloaded{
                 [&](const agent::ConfirmRound& a) {
                   to_coordinator(id, NodeConfirmed{id, a.round});
                 },
                 [&](const agent::StartWorkers& a) { start(id, a.seat); },
                 [&](const agent::SignalWorkers& a) {
                   for (const int rank : self.running) {
                     const bool ignores =
                         (id + static_cast<NodeId>(rank + self.round.round)) % options_.stubborn_one_in == 0;
                     if (ignores && a.signal != SIGKILL) continue;
                     net_.after(net_.milliseconds(500), [this, id, round = self.round, rank, signal = a.signal] {
                       end_worker(id, round, rank, {.signal = signal});
                     });
                   }
                 },
                 [&](const agent::SweepLeftovers& a) { dispatch(id, agent::Swept{a.round}); },
                 [&](const agent::ReportRunning& a) {
                   to_coordinator(id, NodeRunning{id, a.round});
                 },
                 [&](const agent::ReportDone& a) {
                   to_coordinator(id, NodeDone{id, a.round});
                 },
                 [&](const agent::ReportFailure& a) {
                   note(id, "a worker fails");
                   to_coordinator(id, WorkerFailed{{a.round, id, a.local_rank, 0, a.status}, true});
                 },
                 [&](const agent::ReportInterrupted&) {
                   to_coordinator(id, NodeLeaves{id, SIGTERM});
                 },
                 [&](const agent::Rejoin&) {
                   to_coordinator(id, NodeReady{id, self.offer});
                 },
                 [&](const agent::Finish& a) { finish(id, a.outcome); },
                 [](const auto&) {},
             },
             action);
}

void EtcdCluster::schedule_tick(NodeId id) {
  if (const auto deadline = node(id).supervisor.next_deadline())
    at_time(id, *deadline, [this, id, due = *deadline] {
      if (node(id).supervisor.next_deadline() == due) dispatch(id, agent::Tick{});
    });
}

// A worker fails within its first twenty seconds, or ends well when all faults are over.
void EtcdCluster::start(NodeId id, const Seat& seat) {
  Node& self = node(id);
  self.round = self.newest;
  check_start(id, self.round);
  const auto failing = failing_.find(self.round);
  const TimePoint over = last_fault() + kWorkersGoOn;
  for (int rank = 0; rank < seat.workers; ++rank) {
    self.running.insert(rank);
    dispatch(id, agent::WorkerStarted{seat.round, rank});
    const bool fails = rank == 0 && failing != failing_.end() && failing->second == id;
    const Duration lasts =
        fails ? net_.milliseconds(20'000) : std::max<Duration>(over - net_.now(), 5s) + net_.milliseconds(5'000);
    net_.after(lasts,
               [this, id, round = self.round, rank, fails] { end_worker(id, round, rank, {.code = fails ? 1 : 0}); });
  }
}

void EtcdCluster::end_worker(NodeId id, const RecordId& round, int local_rank, const ExitStatus& status) {
  Node& self = node(id);
  if (self.round != round || !self.running.erase(local_rank)) return;
  on_node(id, [this, id, round, local_rank, status] {
    dispatch(id, agent::WorkerExited{round.round, local_rank, status});
  });
}

void EtcdCluster::finish(NodeId id, const Outcome& outcome) {
  note(id, "finishes: " + outcome.reason);
  require(node(id).running.empty(), "an agent that finishes has no workers");
  node(id).finished_with = outcome;
  leave_when_notified(id, now(id) + kExitLimit);
}

void EtcdCluster::leave_when_notified(NodeId id, TimePoint at_last) {
  Node& self = node(id);
  if (!is_present(id)) return;
  if (self.end && !self.all_notified && now(id) < std::min(at_last, self.leave_deadline))
    return after(id, 50ms, [this, id, at_last] { leave_when_notified(id, at_last); });
  disconnect(id);
  self.finished = true;
  self.lets_go_until = now(id) + kLetGoTries * kLetGoEvery;
  if (self.election.leads()) let_keys_go(id, self.election.last_act(), kLetGoTries);
  if (self.leadership && !self.leadership->coordinator.is_over()) stop_leading(id);
  exit_when_left(id, at_last);
}

void EtcdCluster::let_keys_go(NodeId id, const LastAct& act, int tries) {
  if (tries == 0 || node(id).let_go) return;
  trip<bool>(
      id, [this, act] { return etcd_.leave(act); }, [this, id](bool done) { node(id).let_go |= done; });
  after(id, kLetGoEvery, [this, id, act, tries] { let_keys_go(id, act, tries - 1); });
}

void EtcdCluster::exit_when_left(NodeId id, TimePoint at_last) {
  Node& self = node(id);
  const bool left = !self.leadership || (self.leadership->coordinator.all_notified() && self.leadership->peers.empty());
  const bool let_go = !self.election.leads() || self.let_go || now(id) >= self.lets_go_until;
  if (!(left && let_go) && now(id) < at_last)
    return after(id, 100ms, [this, id, at_last] { exit_when_left(id, at_last); });
  note(id, "exits");
  self.exited = true;
  self.leadership.reset();
  etcd_.stop_watch(id);
  keys_stay_ |= self.election.leads() && !self.let_go;
  if (!present_nodes().empty() || last_end_ != Verdict::success) return;
  net_.after(kVanishWithin, [this] {
    const bool gone = !etcd_.has_coordinator() && !etcd_.record();
    require(gone || keys_stay_ || !present_nodes().empty(), "keys vanish after the end");
  });
}

bool EtcdCluster::is_excused(NodeId id) {
  return net_.now() <= node(id).excused_until || (is_paused(id) && now(id) >= node(id).lease_ends);
}

void EtcdCluster::check_start(NodeId id, const RecordId& round) {
  for (const auto& one : nodes_)
    if (!one->running.empty() && one->round != round)
      require(is_excused(one->id) || begins_anew_, "no worker of another round runs when one starts: " + named(round) +
                                                       " on node" + std::to_string(id) + ", " + named(one->round) +
                                                       " on node" + std::to_string(one->id));
  if (!started_.insert(round).second) return;
  note(named(round) + " starts");
  round_began_ = net_.now();
  require(lost_data_ || *started_.rbegin() == round, "terms and rounds' numbers grow");
}

}  // namespace ddprun::test
