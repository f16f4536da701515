#include "tests/simulation/cluster.h"

#include <algorithm>
#include <csignal>
#include <stdexcept>
#include <string>
#include <utility>

#include "rendezvous/base/overloaded.h"

namespace ddprun::test {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLease = 5s, kLeaseMargin = 1s, kHeartbeatInterval = kLease / 4, kCheckInterval = kLease / 10,
                   kContactEvery = 100ms;
constexpr Duration kPause = 200ms, kTryLimit = 5s, kAnnounceInterval = 1s, kAnnounceFor = 60s, kSearchLimit = 30s,
                   kLeaveLimit = 30s;
constexpr Duration kSearchLimitUnseated = 600s, kSettled = 15s, kNewJobLimit = 5s, kHealthy = 90s;
constexpr int kStartsMax = 60, kReturnsWithinMs = 10'000, kSlowNameMs = 8'000, kBusyMs = 60'000;

// Called a million times a second: the message is built only if it does not hold.
void invariant(bool holds, const char* words) {
  if (!holds) throw std::logic_error(std::string("broken: ") + words);
}

RoundPolicy policy_of(const ClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .fixed_ranks = options.fixed_ranks,
          .restarts = {.max_restarts = options.max_restarts, .credit_after = {}},
          .exclusion = {.failures = options.exclude_after, .lasts = std::chrono::minutes(3)}};
}

// A seat names its job, too, only for the simulation.
std::string store_host(NodeId id, int job) { return "node" + std::to_string(id) + " " + std::to_string(job); }
int job_of(const std::string& store_host) { return std::stoi(store_host.substr(store_host.find(' '))); }

std::string in_words(const RecordId& id) {
  return "round " + std::to_string(id.round) + " of term " + std::to_string(id.term);
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options)
    : options_(options), net_(options.seed), sizes_{{options.nodes_min, options.nodes_max}} {
  for (int i = 0; i < options.agents; ++i) add_node(net_.milliseconds(60'000), slots_.size());
  on_disturbance();
  schedule_faults();
}

NodeId Cluster::add_node(Duration when, std::size_t slot) {
  const NodeId id = nodes_.size() + 1;
  nodes_.push_back(std::make_unique<Node>(id, slot, options_));
  if (slot == slots_.size())
    slots_.push_back(0);
  else
    net_.put(id, net_.side(slots_[slot]));
  slots_[slot] = id;
  node(id).offer = {
      .workers = 1 + net_.up_to(options_.workers_max - 1), .host = "node" + std::to_string(id), .port = 1000};
  node(id).offer.workers_most = node(id).offer.workers + 4;
  if (options_.fixed_ranks) node(id).offer.requested_rank = static_cast<int>(slot);
  if (slot < static_cast<std::size_t>(options_.places)) {
    const bool busy = options_.busy_ports > 0 && net_.chance(options_.busy_ports);
    net_.after(busy ? net_.milliseconds(kBusyMs) : Duration::zero(), [this, id] { listen_at_place(id); });
  }
  net_.after(when, [this, id] { connect(id); });
  return id;
}

void Cluster::listen_at_place(NodeId id) {
  if (!is_present(id)) return;
  Node& self = node(id);
  self.at_place = true;
  if (self.slot != 0) return;
  self.first_place.take();
  lead_if_first(id);
}

void Cluster::lead_if_first(NodeId id) {
  Node& self = node(id);
  if (!self.leadership && self.first_place.should_begin(self.election.newest(), net_.now())) lead(id, {}, {});
}

// Done by whatever restarts nodes: a person, a scheduler.
void Cluster::restart_slot(std::size_t slot) {
  if (!options_.returns || ended_by_ || ++starts_ > kStartsMax) return;
  net_.after(net_.milliseconds(kReturnsWithinMs), [this, slot] {
    if (ended_by_ || is_present(slots_[slot])) return;
    if (listens(slots_[slot])) return restart_slot(slot);  // it stays for others: its port is in use
    node(slots_[slot]).host_down = false;
    close_links(slots_[slot]);
    note(add_node({}, slot), "is started again, in the place of node" + std::to_string(slots_[slot]));
    on_disturbance();
  });
}

void Cluster::schedule_faults() {
  if (net_.chance(options_.interrupt))
    net_.after(net_.milliseconds(600'000), [this] {
      const auto all = live_nodes();
      if (!all.empty()) signal(all[net_.draw() % all.size()], SIGINT);
    });
  for (int i = 0; i < options_.kills; ++i) schedule_fault(&Cluster::kill_agent, i < options_.coordinator_faults);
  for (int i = 0; i < options_.cuts; ++i) schedule_fault(&Cluster::cut, i < options_.coordinator_faults);
  for (int i = 0; i < options_.leaves; ++i) schedule_fault(&Cluster::leave, i < options_.coordinator_faults);
  for (int i = 0; i < options_.stalls; ++i) schedule_fault(&Cluster::stand, i < options_.coordinator_faults);
  for (int i = 0; i < options_.joins; ++i) net_.after(net_.milliseconds(options_.fault_period_ms), [this] { join(); });
  for (int i = 0; i < options_.acts; ++i) net_.after(net_.milliseconds(options_.fault_period_ms), [this] { act(); });
}

void Cluster::schedule_fault(void (Cluster::*fault)(NodeId), bool hits_coordinator) {
  net_.after(net_.milliseconds(options_.fault_period_ms), [this, fault, hits_coordinator] {
    const auto all = live_nodes();
    if (all.empty()) return;
    const auto head = leader();
    (this->*fault)(hits_coordinator && head ? *head : all[net_.draw() % all.size()]);
  });
}

void Cluster::run() {
  for (int events = 0; net_.step(); ++events) invariant(events < 20'000'000, "the job comes to an end");
  for (const auto& one : nodes_) {
    invariant(one->finished || !one->alive, "every agent finishes");
    invariant(one->running.empty(), "no worker is left at the end");
  }
  check_same_outcome();
}

// Whatever happens to the coordinator that decided the job's end: if one node that received it lives, all end alike.
void Cluster::check_same_outcome() {
  for (const auto& one : nodes_)
    if (notified_first_.contains(one->id) && one->alive && !one->left) outcomes_.push_back(*one->finished_with);
  const bool nobody_knows = std::none_of(notified_first_.begin(), notified_first_.end(),
                                         [&](NodeId id) { return node(id).alive && node(id).in_last_round; });
  if (cut_at_end_ || nobody_knows) return;
  for (const auto& one : nodes_) {
    if (!one->in_last_round || !one->alive || one->signal != 0) continue;
    if (!one->finished_with || one->finished_with->verdict != end_->verdict)
      throw std::logic_error("broken: nodes that heard of the job's end tell the others, node" +
                             std::to_string(one->id));
  }
}

void Cluster::note(const std::string& line) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(net_.now().time_since_epoch()).count();
  transcript_ += std::to_string(ms) + " ms  " + line + "\n";
}

std::vector<NodeId> Cluster::live_nodes() {
  std::vector<NodeId> out;
  for (const auto& one : nodes_)
    if (is_present(one->id)) out.push_back(one->id);
  return out;
}

std::optional<NodeId> Cluster::leader() {
  for (const NodeId id : live_nodes())
    if (node(id).leadership && !node(id).leadership->coordinator.is_over()) return id;
  return {};
}

std::optional<NodeId> Cluster::first_seated(NodeId except) {
  while (!seated_.empty() && !is_present(*seated_.begin())) seated_.erase(seated_.begin());
  for (const NodeId id : seated_)
    if (id != except && is_present(id)) return id;
  return {};
}

void Cluster::kill_agent(NodeId id) {
  Node& victim = node(id);
  victim.host_down = options_.silent > 0 && net_.chance(options_.silent);
  note(id, victim.host_down ? "its host is gone" : "its agent is killed");
  victim.alive = false;
  net_.after(20ms, [this, id] {  // done by its keeper
    Node& dead = node(id);
    count_running(dead.round, -static_cast<int>(dead.running.size()));
    dead.running.clear();
    close_store_session(id);
  });
  vanish(id);
  on_disturbance();
  restart_slot(victim.slot);
}

// Its links close if the other end is reachable; soon its port refuses connections.
void Cluster::vanish(NodeId id) {
  node(id).leadership.reset();
  if (!node(id).host_down) close_links(id);
}

void Cluster::close_links(NodeId id) {
  std::vector<NodeId> others;
  for (const auto& one : nodes_)
    if (one->id != id && one->alive && net_.reaches(id, one->id)) others.push_back(one->id);
  net_.after(5ms, [this, id, others = std::move(others)] {
    for (const NodeId other : others) {
      const Node& peer = node(other);
      if (!listens(other)) continue;
      if (peer.leadership && peer.leadership->peers.contains(id)) lose(other, id, "its connection was closed", true);
      if (peer.link && peer.coordinator == id) try_again(other, kPause, false);
      close_store(id, other);
    }
  });
}

// Some nodes on one side, the rest on the other.
void Cluster::cut(NodeId id) {
  std::vector<NodeId> apart{id};
  for (const NodeId other : live_nodes())
    if (other != id && net_.chance(0.3)) apart.push_back(other);
  const int side = ++sides_;
  ++cuts_;
  cut_at_end_ = cut_at_end_ || ended_by_;
  for (const NodeId one : apart) net_.put(one, side), note(one, "out of the others' reach");
  break_store_sessions();
  on_disturbance();
  net_.after(net_.milliseconds(20'000), [this, apart] {
    for (const NodeId one : apart) {
      net_.put(one, 0);
      net_.put(slots_[node(one).slot], 0);
      note(one, "in reach again");
    }
    --cuts_;
    on_disturbance();
  });
}

void Cluster::leave(NodeId id) {
  note(id, "SIGTERM");
  node(id).left = true;
  signal(id, SIGTERM);
}

// What comes for the loop waits; its link, its workers and its coordinator go on.
void Cluster::stand(NodeId id) {
  if (stands(id)) return;
  Node& self = node(id);
  self.stands_since = net_.now();
  self.stands_until = net_.now() + 1ms + net_.milliseconds(net_.chance(0.5) ? 10'000 : 60'000);
  note(id, "its loop stands");
  ++cuts_;
  on_disturbance();
  net_.after(self.stands_until - net_.now(), [this, id] { go_on(id); });
}

void Cluster::go_on(NodeId id) {
  Node& self = node(id);
  note(id, "its loop goes on");
  while (!self.to_do.empty()) {
    const std::function<void()> next = std::move(self.to_do.front());
    self.to_do.pop_front();
    next();
  }
  --cuts_;
  on_disturbance();
}

void Cluster::on_loop(NodeId id, std::function<void()> what) {
  if (!stands(id)) return what();
  node(id).to_do.push_back(std::move(what));
}

// Uses the first free slot; but not at the first place if new nodes alone could form a round, and begin another job
// before they are told that this one continues.
void Cluster::join() {
  if (ended_by_ || (!started_.empty() && !first_seated())) return;  // it would be another job
  std::size_t slot = options_.fixed_ranks || options_.nodes_max > options_.joins ? 0 : 1;
  while (slot < slots_.size() && listens(slots_[slot])) ++slot;  // also for others only: its port is in use
  note(add_node({}, slot), slot == 0 ? "comes, to the first place" : "comes");
}

// By whichever node is asked, about any node.
void Cluster::act() {
  constexpr ActKind kinds[] = {ActKind::restart, ActKind::drain,       ActKind::admit,
                               ActKind::resize,  ActKind::add_workers, ActKind::remove_workers};
  const auto all = live_nodes();
  if (all.empty()) return;
  const auto any = [&] { return all[net_.draw() % all.size()]; };
  const int least = 1 + net_.up_to(options_.agents - 1);
  acts_.push_back({.kind = kinds[net_.draw() % std::size(kinds)],
                   .node = "node" + std::to_string(any()),
                   .nodes_min = least,
                   .nodes_max = least + net_.up_to(options_.agents),
                   .by = "a user",
                   .workers = 1 + net_.up_to(2)});
  if (changes_workers(acts_.back().kind) && net_.chance(0.3)) acts_.back().node.clear();
  const NodeId asked = any();
  if (!stands(asked)) from_loop(asked, Asked{asked, static_cast<int>(acts_.size()) - 1, acts_.back()});
}

void Cluster::note_act(NodeId at, const JobReply& reply) {
  const Act& act = acts_.at(static_cast<std::size_t>(reply.serial));
  const auto& done = std::get<ActResult>(reply.answer);
  note(at, in_words(act) + (done.done ? ": " : ", refused: ") + done.text);
  if (!done.done) return;
  ++acts_done_;
  if (act.kind == ActKind::resize) sizes_.insert({act.nodes_min, act.nodes_max});
  if (!changes_workers(act.kind)) return;
  Leadership& leadership = *node(at).leadership;
  for (const NodeView& one : leadership.coordinator.view(net_.now()).nodes)
    if (one.place != NodePlace::lost && (act.node.empty() || act.node == one.host))
      leadership.workers_by_users[one.id] = one.workers;
}

// The job cannot continue here.
void Cluster::abandon_job(NodeId id) {
  Node& self = node(id);
  if (!is_present(id) || self.end || std::exchange(self.abandoned, true)) return;
  note(id, "gives up the job");
  disconnect(id);
  dispatch(id, agent::Isolated{});
  rejoin_as_new_node(id);
}

// Called once its workers are gone.
void Cluster::rejoin_as_new_node(NodeId id) {
  if (stands(id)) return on_loop(id, [this, id] { rejoin_as_new_node(id); });
  Node& self = node(id);
  if (!is_present(id)) return;
  if (self.supervisor.round_with_workers()) return net_.after(50ms, [this, id] { rejoin_as_new_node(id); });
  self.finished = self.exited = true;
  vanish(id);
  if (self.signal != 0) return;
  const NodeId next = add_node({}, self.slot);
  node(next).instead_of = id;
  node(next).rejoined = node(next).seated = true;
  node(next).in_last_round = std::exchange(self.in_last_round, false);  // it is the same agent
  node(next).offer.rounds = node(id).newest.round;
  node(next).disconnected_since = net_.now();
  note(next, "begins anew, instead of node" + std::to_string(id));
}

void Cluster::signal(NodeId id, int signal) {
  node(id).signal = signal;
  dispatch(id, agent::Signalled{signal});
  on_disturbance();
}

void Cluster::on_disturbance() {
  calm_since_.reset();
  all_alive_since_.reset();
  if (cuts_ > 0) return;
  if (all_slots_alive()) all_alive_since_ = net_.now();
  calm_since_ = net_.now();
  quorum_at_calm_ = quorum_in_reach();
}

// Two heartbeats can tell it that a quorum is back before it has to stop. (Only it knows which nodes are gone for good:
// its record has more, so another node may lack a quorum that it had.)
bool Cluster::stays_coordinator(NodeId id) {
  const Leadership& leadership = *node(id).leadership;
  const TimePoint contact = leadership.contact.latest(leadership.coordinator.electorates(), id, net_.now());
  return contact > net_.now() - kLease + 2 * kHeartbeatInterval + 500ms;
}

// Whether, among the nodes that stay for a while, one coordinates or can be elected by its record. No node votes for a
// record older than its own.
bool Cluster::quorum_in_reach() {
  std::vector<NodeId> there;
  for (const NodeId id : live_nodes()) {
    const Node& one = node(id);
    const Duration patience = one.seated ? kSearchLimit : kSearchLimitUnseated;
    if (!one.left && (!one.disconnected_since || *one.disconnected_since + patience >= net_.now() + kSettled))
      there.push_back(id);
  }
  const auto have_quorum = [&](const std::vector<Electorate>& electorates, const RecordId& record) {
    std::set<NodeId> voters;
    for (const NodeId id : there)
      if (node(id).newest <= record) voters.insert(id);
    return std::all_of(electorates.begin(), electorates.end(),
                       [&](const Electorate& one) { return one.has_quorum(voters); });
  };
  std::set<RecordId> tried;
  return std::any_of(there.begin(), there.end(), [&](NodeId id) {
    const auto& leadership = node(id).leadership;
    if (leadership && !leadership->coordinator.is_over() && stays_coordinator(id)) {
      const auto electorates = leadership->coordinator.electorates();
      if (have_quorum(electorates, leadership->newest)) return true;
    }
    const auto& record = node(id).election.record();
    return record && tried.insert(record->id()).second && have_quorum(record->electorates(), record->id());
  });
}

bool Cluster::all_slots_alive() {
  return std::all_of(slots_.begin(), slots_.end(), [&](NodeId id) { return is_present(id) && !node(id).left; });
}

bool Cluster::has_enough_nodes() {
  if (!calm_since_ || !quorum_at_calm_ || net_.now() < *calm_since_ + kSettled) return false;
  int most = 0;
  for (const auto& [least, unused] : sizes_) most = std::max(most, least);
  const auto all = live_nodes();
  return std::count_if(all.begin(), all.end(), [&](NodeId id) { return !node(id).left; }) >= most;
}

// If faults have stopped with a quorum in reach, no node gives up: neither one that looks for the coordinator, nor the
// coordinator that waits for nodes.
void Cluster::check_progress(NodeId id, const Outcome& outcome) {
  const Node& self = node(id);
  const bool without_round = outcome.verdict == Verdict::out_of_reach || outcome.verdict == Verdict::too_few_nodes ||
                             outcome.verdict == Verdict::too_few_left;
  if (without_round && !ended_by_ && all_alive_since_ && net_.now() >= *all_alive_since_ + kHealthy)
    throw std::logic_error("broken: healthy nodes always form a round, node" + std::to_string(id) + " among them");
  if (!calm_since_ || !quorum_at_calm_ || self.left || (ended_at_ && *ended_at_ < *calm_since_ + kSettled)) return;
  const Duration patience = self.seated ? kSearchLimit : kSearchLimitUnseated;
  if (outcome.verdict == Verdict::out_of_reach && net_.now() >= *calm_since_ + patience)
    throw std::logic_error("broken: an agent in reach of a quorum ends with the job's verdict, node" +
                           std::to_string(id) + " too");
}

std::vector<NodeId> Cluster::places(NodeId id) {
  const Node& self = node(id);
  std::vector<NodeId> out;
  if (self.coordinator) out.push_back(*self.coordinator);
  for (std::size_t i = 0; i < count_places(); ++i) out.push_back(slots_[i]);
  if (const auto second = first_seated(id); second && !options_.returns) out.push_back(*second);  // another endpoint
  for (std::size_t i = 0; self.kept && i < std::min<std::size_t>(8, self.kept->nodes.size()); ++i)
    out.push_back(self.kept->nodes[i].id);
  return out;
}

void Cluster::connect(NodeId id) {
  Node& self = node(id);
  if (!is_present(id) || self.link) return;
  const auto all = places(id);
  const std::size_t turn = static_cast<std::size_t>(self.turn) % all.size();
  const NodeId at = all[turn];
  const bool by_place = turn >= (self.coordinator ? 1u : 0u) && turn < (self.coordinator ? 1u : 0u) + count_places();
  const int attempt = ++self.attempt;
  Duration look_up{};
  if (by_place && options_.slow_names > 0 && net_.chance(options_.slow_names)) look_up = net_.milliseconds(kSlowNameMs);
  if (!net_.reaches(id, at) || node(at).host_down)
    return net_.after(look_up + kTryLimit, [this, id, attempt] {
      if (node(id).attempt == attempt) try_again(id, kPause, false);
    });
  net_.after(look_up + net_.milliseconds(10), [this, id, at, attempt, by_place] { reach(id, at, attempt, by_place); });
}

// A place's port belongs to its slot: the node that took it after a dead one answers.
NodeId Cluster::who_answers(NodeId at) {
  if (listens(at) || !node(at).at_place) return at;
  const NodeId now = slots_[node(at).slot];
  return listens(now) && node(now).at_place ? now : at;
}

bool Cluster::answers(NodeId at) { return listens(at) && !node(at).host_down; }

void Cluster::reach(NodeId id, NodeId at, int attempt, bool by_place) {
  Node& self = node(id);
  if (!is_present(id) || self.attempt != attempt) return;
  if (is_stuck(id)) return try_again(id, kPause, false);
  const NodeId wanted = std::exchange(at, who_answers(at));
  if (!answers(at) || (by_place && !node(at).at_place)) return try_again(id, kPause, self.coordinator == wanted);
  self.link = net_.open(id, at);
  self.heartbeats_sent = {{0, net_.now()}};
  net_.send(self.link, at, [this, id, at, link = self.link, record = self.newest] { on_hello(at, id, link, record); });
  net_.after(kTryLimit, [this, id, attempt] {
    if (node(id).attempt == attempt && !node(id).welcome) try_again(id, kPause, false);
  });
}

void Cluster::disconnect(NodeId id) {
  Node& self = node(id);
  const Network::LinkId link = std::exchange(self.link, 0);
  ++self.attempt;
  self.welcome = false;
  self.heartbeats_sent.clear();
  const NodeId other = net_.other_end(link, id);
  net_.close(link);
  const auto holds_it = [this, id, other, link] {
    const Node& at = node(other);
    if (!at.alive || !at.leadership) return false;
    const auto peer = at.leadership->peers.find(id);
    return peer != at.leadership->peers.end() && peer->second.link == link;
  };
  if (other == 0 || !holds_it() || !net_.reaches(id, other)) return;
  net_.after(5ms, [this, id, other, holds_it] {  // the other end sees it, if reachable
    if (holds_it()) lose(other, id, "its connection was closed", true);
  });
}

void Cluster::try_again(NodeId id, Duration pause, bool gone, const RecordId& known) {
  Node& self = node(id);
  if (!is_present(id)) return;
  disconnect(id);
  ++self.turn;
  net_.after(pause, [this, id, attempt = self.attempt] {
    if (node(id).attempt == attempt) connect(id);
  });
  self.first_place.on_failed_attempt(known, net_.now());
  if (self.end) set_leave_deadline(id);
  elect(id, CoordinatorDisconnected{gone, self.leadership ? net_.now() : std::max(self.heard_at, self.led_at)});
  if (!is_present(id) || self.abandoned || self.end) return;
  lead_if_first(id);
  on_loop(id, [this, id, when = net_.now()] { without_coordinator(id, when); });
}

// As the agent does.
void Cluster::without_coordinator(NodeId id, TimePoint when) {
  Node& self = node(id);
  if (!is_present(id) || self.abandoned || self.finished_with) return;
  self.known = 0;
  if (!self.disconnected_since) self.disconnected_since = when;
  if (self.supervisor.round_with_workers()) return;
  if (self.signal != 0) return dispatch(id, agent::JobEnded{{Verdict::interrupted, self.signal, "interrupted", {}}});
  const Duration patience = self.rejoined ? kNewJobLimit : self.seated ? kSearchLimit : kSearchLimitUnseated;
  if (when - *self.disconnected_since < patience) return;
  dispatch(id, agent::JobEnded{{Verdict::out_of_reach, 0, "the coordinator could not be reached", {}}});
}

void Cluster::connect_to(NodeId id, NodeId coordinator) {
  disconnect(id);
  node(id).coordinator = coordinator;
  node(id).turn = 0;
  connect(id);
}

void Cluster::on_welcome(NodeId id, const Welcome& welcome) {
  Node& self = node(id);
  self.welcome = true;
  self.rejoined = false;
  self.first_place.connected();
  self.heard_at = net_.now();
  self.answered = 0;
  self.spoken = !self.contact || options_.bug == Bug::unspoken;
  self.unspoken_contact = TimePoint::min();
  on_quorum_contact(id, 0, welcome.quorum_age);
  elect(id, CoordinatorConnected{welcome.term});
  if (self.coordinator != id) {
    self.announcing.reset();
    stop_leading(id, {welcome.term, {}}, self.coordinator);
  } else if (self.led && self.led->term == welcome.term && !self.announcing) {
    self.announcing = self.led;
    announce(id, welcome.term, net_.now() + kAnnounceFor);
  }
  schedule_heartbeat(id, self.attempt);
  self.leave_deadline = TimePoint::max();
  if (self.end) return to_coordinator(id, JobWasOver{id, *self.end});
  on_loop(id, [this, id, attempt = self.attempt] {
    Node& there = node(id);
    if (!is_present(id)) return;
    there.disconnected_since.reset();
    there.known = attempt;
    if (const auto round = there.supervisor.round_with_workers())
      from_loop(id, NodeBack{id, *round, there.offer});
    else
      from_loop(id, NodeReady{id, there.offer});
    send_signal(id);
  });
}

void Cluster::on_quorum_contact(NodeId id, std::uint64_t answered, Duration age) {
  Node& self = node(id);
  const auto heartbeat = self.heartbeats_sent.find(answered);
  if (heartbeat == self.heartbeats_sent.end()) return;
  self.answered = answered;
  const std::optional<TimePoint> contact = heartbeat->second - age;
  self.heartbeats_sent.erase(self.heartbeats_sent.begin(), std::next(heartbeat));
  if (!self.spoken) return void(self.unspoken_contact = std::max(self.unspoken_contact, *contact));
  self.contact = std::max(self.contact, contact);
  watch_lease(id);
}

void Cluster::schedule_heartbeat(NodeId id, int attempt) {
  net_.after(kHeartbeatInterval, [this, id, attempt] {
    Node& self = node(id);
    if (!is_present(id) || self.attempt != attempt || !self.welcome) return;
    self.heartbeats_sent[++self.last_heartbeat] = net_.now();
    to_coordinator(id, Heartbeat{self.last_heartbeat, self.answered, stood(id)});
    if (!is_stuck(id)) return schedule_heartbeat(id, attempt);
    isolate(id);
    net_.after(kHeartbeatInterval, [this, id, attempt] {
      if (node(id).attempt == attempt) try_again(id, kPause, false);
    });
  });
}

void Cluster::watch_lease(NodeId id) {
  const TimePoint due = *node(id).contact + kLease;
  net_.after(std::max(due - net_.now(), Duration::zero()), [this, id, due] {
    Node& self = node(id);
    if (!is_present(id) || !self.contact || *self.contact + kLease != due) return;
    note(id, "no contact to a quorum for the lease");
    if (options_.bug != Bug::no_lease) isolate(id);
    if (self.link) try_again(id, kPause, false);
  });
}

// If its loop stands, its link ends the workers.
void Cluster::isolate(NodeId id) {
  Node& self = node(id);
  self.contact.reset();
  self.spoken = true;
  self.isolated = self.attempt - (self.welcome ? 0 : 1);  // not the one that is being made
  const bool kills = stands(id) && options_.bug != Bug::standing;
  self.fences += kills ? 1 : 0;
  on_loop(id, [this, id, kills] { node(id).fences -= kills ? 1 : 0; });
  dispatch(id, agent::Isolated{});
  if (kills) signal_workers(id, SIGKILL);
}

void Cluster::on_elsewhere(NodeId id, const Elsewhere& referral, std::optional<NodeId> at, bool replaced) {
  try_again(id, kPause, replaced, referral.record);
  const Node& self = node(id);
  if (is_present(id) && at && self.election.would_follow(referral.term) && at != self.coordinator) connect_to(id, *at);
}

void Cluster::to_coordinator(NodeId id, const FromAgent& message) {
  Node& self = node(id);
  if (!self.welcome) return;
  const NodeId at = *self.coordinator;
  if (!std::holds_alternative<Heartbeat>(message) && !std::exchange(self.spoken, true)) {
    self.contact = std::max(*self.contact, self.unspoken_contact);
    watch_lease(id);
  }
  net_.send(self.link, at, [this, at, id, message] {
    if (listens(at)) on_message(at, id, message);
  });
}

// By the connection of which the loop knows.
void Cluster::from_loop(NodeId id, const FromAgent& message) {
  if (node(id).known == node(id).attempt) to_coordinator(id, message);
}

// A node that comes back repeats it.
void Cluster::send_signal(NodeId id) {
  const int signal = node(id).signal;
  if (signal == SIGINT) from_loop(id, JobInterrupted{id, signal});
  if (signal == SIGTERM) from_loop(id, NodeLeaves{id, signal});
}

void Cluster::on_message(NodeId id, const ToAgent& message) {
  Node& self = node(id);
  if (!is_present(id)) return;
  self.heard_at = net_.now();
  const auto order = [&](const agent::Event& event) {
    on_loop(id, [this, id, event, from = self.attempt] {
      if (from > node(id).isolated || options_.bug == Bug::old_orders) dispatch(id, event);
    });
  };
  std::visit(overloaded{
                 [&](const HeartbeatAnswer& m) { on_quorum_contact(id, m.number, m.quorum_age); },
                 [&](const KeepRecord& m) {
                   self.kept = m.record;
                   if (m.record.previous_electorates.empty())
                     elect(id, RecordConfirmed{m.record.id(), m.record.find(id) != nullptr});
                 },
                 [&](const TakeSeat& m) {
                   const RecordId record{m.term, m.seat.round};
                   if (self.kept && self.kept->id() != record) self.kept.reset();
                   elect(id, RecordKept{record, self.kept});
                   self.newest = record;
                   self.job = job_of(m.seat.master_host);
                   self.offer.rounds = record.round;
                   self.offer.workers = m.seat.workers;
                   if (m.seat.group_rank == 0) open_store(id, {self.job, record});
                   self.seated = true;
                   seated_.insert(id);
                   order(agent::RoundFormed{m.seat});
                 },
                 [&](const StartRound& m) {
                   elect(id, RoundBegan{m.round});
                   order(agent::RoundStarted{m.round});
                 },
                 [&](const EndRound& m) {
                   order(agent::RoundEnded{m.round, m.planned});
                 },
                 [&](const EndJob& m) {
                   if (m.for_all) {
                     to_coordinator(id, NodeNotified{id});
                     if (std::exchange(self.end, self.end ? self.end : m.outcome)) return;
                     if (!self.welcome) set_leave_deadline(id);
                   }
                   dispatch(id, agent::JobEnded{m.outcome});
                 },
                 [&](const AllNotified&) { self.all_notified = true; },
                 [&](const AskStandings& m) {
                   on_loop(id, [this, id, m] {
                     if (m.round == node(id).round.id.round) send_standings(id);
                   });
                 },
                 [&](const BlameWorker& m) { on_loop(id, [this, id, m] { blame(id, m); }); },
                 [&](const KeepRange& m) {
                   elect(id, RecordResized{m.record, m.range});
                 },
                 [](const auto&) {},
             },
             message);
}

void Cluster::elect(NodeId id, const ElectionEvent& event, NodeId from) {
  if (!is_present(id) || node(id).abandoned) return;
  if (options_.bug == Bug::no_candidates && std::holds_alternative<ElectionTick>(event)) return;
  Election& election = node(id).election;
  if (options_.bug == Bug::vote_twice && std::holds_alternative<VoteRequested>(event)) {
    Election before = election;
    for (const ElectionAction& action : before.on(event, net_.now())) execute(id, action, from);
    return;
  }
  for (const ElectionAction& action : election.on(event, net_.now())) execute(id, action, from);
  schedule_election(id);
}

void Cluster::execute(NodeId id, const ElectionAction& action, NodeId from) {
  std::visit(
      overloaded{
          [&](const AskForVotes& a) {
            node(id).announcing.reset();
            note(id, "stands for term " + std::to_string(a.request.term));
            const auto request = std::make_shared<const VoteRequest>(a.request);
            for (const RoundNode& voter : request->record->nodes) {
              if (voter.id != id) ask_for_vote(id, voter.id, request);
            }
          },
          [&](const GiveVote& a) {
            if (a.vote.granted) votes_[{node(from).job, a.vote.term, from}].insert(id);
            net_.post(id, from, [this, from, id, vote = a.vote, end = node(id).end] {
              if (end) on_message(from, EndJob{*end, true});
              elect(from, VoteGiven{id, vote});
              if (options_.bug != Bug::count_twice || !node(from).election.record()) return;
              for (const auto record = node(from).election.record(); const RoundNode& other : record->nodes)
                if (other.id != id && other.id != from) return elect(from, VoteGiven{other.id, vote});
            });
          },
          [&](const Lead& a) { on_elected(id, a); },
          [&](const Follow&) {
            node(id).announcing.reset();
            stop_leading(id, {node(id).election.term(), {}}, from);
            connect_to(id, from);
          },
          [&](const GiveUp& a) {
            Node& self = node(id);
            if (self.end)
              return void(self.leave_deadline = self.election.is_alone() ? net_.now() : self.leave_deadline);
            if (is_stuck(id)) return;
            if (a.certain) return on_loop(id, [this, id] { abandon_job(id); });
            dispatch(id, agent::JobEnded{{Verdict::out_of_reach, 0, "the coordinator is gone or unreachable", {}}});
          },
      },
      action);
}

// It may find no node there, or another one.
void Cluster::ask_for_vote(NodeId id, NodeId voter, const std::shared_ptr<const VoteRequest>& request) {
  net_.post(id, voter, [this, voter, request, id] {
    if (is_present(voter)) return elect(voter, VoteRequested{*request}, id);
    if (const auto& end = node(voter).end; listens(voter) && end)
      return net_.post(voter, id, [this, id, end = *end] { on_message(id, EndJob{end, true}); });
    if (node(voter).host_down || (listens(voter) && who_answers(voter) == voter)) return;
    net_.post(voter, id, [this, id, voter] { elect(id, NodeDead{voter}); });
  });
}

void Cluster::schedule_election(NodeId id) {
  const auto deadline = node(id).election.next_deadline();
  if (!deadline || node(id).election_tick_at == deadline) return;
  node(id).election_tick_at = deadline;
  net_.after(std::max(*deadline - net_.now(), Duration::zero()), [this, id, due = *deadline] {
    Node& self = node(id);
    if (self.election_tick_at == due) self.election_tick_at.reset();
    if (is_stuck(id)) return net_.after(1s, [this, id] { schedule_election(id); });
    if (self.election.next_deadline() == due) elect(id, ElectionTick{});
  });
}

void Cluster::on_elected(NodeId id, const Lead& won) {
  note(id, "is elected for term " + std::to_string(won.term) + " by " + in_words(won.record.id()));
  ++elections_;
  const int job = job_of(won.record.master_host);
  invariant(terms_.insert({job, won.term}).second, "one coordinator is elected in a term");
  std::set<NodeId>& votes = votes_[{node(id).job, won.term, id}];
  votes.insert(id);
  for (const Electorate& electorate : won.record.electorates())
    invariant(electorate.has_quorum(votes), "who is elected was given the votes of a quorum");
  const Duration fence = options_.bug == Bug::no_fence ? Duration::zero() : kLease + kLeaseMargin;
  lead(id, Succession{won.term, won.record, won.heard_at + fence, won.record_age, node(id).end}, won.requested_at);
  node(id).announcing = node(id).led = won;
  connect_to(id, id);
  announce(id, won.term, net_.now() + kAnnounceFor);
}

// Calls the record's nodes for a while, and the first place as long as it leads.
void Cluster::announce(NodeId id, int term, TimePoint until) {
  Node& self = node(id);
  if (!is_present(id) || !self.announcing || self.announcing->term != term) return;
  std::set<NodeId> announced_to;
  for (std::size_t i = 0; i < count_places(); ++i)
    if (node(slots_[i]).at_place) announced_to.insert(slots_[i]);
  if (net_.now() < until)
    for (const RoundNode& other : self.announcing->record.nodes) announced_to.insert(other.id);
  announced_to.erase(id);
  for (const NodeId other : announced_to)
    net_.post(id, other, [this, other, term, id] { elect(other, CoordinatorAnnounced{term}, id); });
  net_.after(kAnnounceInterval, [this, id, term, until] { announce(id, term, until); });
}

void Cluster::lead(NodeId id, std::optional<Succession> succession, TimePoint requested_at) {
  stop_leading(id, {}, {});
  Node& self = node(id);
  const TimePoint now = net_.now();
  if (!succession) {
    note(id, "begins to coordinate");
    self.leadership.emplace(Leadership{Coordinator(policy_of(options_), now, options_.seed, id), ++serials_, ++jobs_,
                                       RecordId{}, QuorumContact{}});
  } else {
    const RecordId newest{succession->term, succession->record.number};
    self.leadership.emplace(Leadership{Coordinator(policy_of(options_), now, options_.seed, id, *succession),
                                       ++serials_, job_of(succession->record.master_host), newest, QuorumContact{}});
    for (const RoundNode& member : succession->record.nodes) {
      self.leadership->contact.answered(member.id, requested_at);
      if (member.id != id) probe(id, serials_, member.id);
    }
  }
  check_leases(id, serials_);
  schedule_coordinator_tick(id);
}

void Cluster::stop_leading(NodeId id, const Elsewhere& referral, std::optional<NodeId> at) {
  Node& self = node(id);
  self.elsewhere = referral;
  self.elsewhere.record = self.election.newest();
  self.elsewhere_at = at;
  if (!self.leadership) return;
  self.led_at = net_.now();
  const Leadership leadership = std::move(*self.leadership);
  self.leadership.reset();
  for (const auto& [peer, one] : leadership.peers)
    net_.send(one.link, peer, [this, peer = peer, link = one.link, referral = self.elsewhere, at] {
      if (is_present(peer) && node(peer).link == link) on_elsewhere(peer, referral, at, false);
    });
}

void Cluster::answer_elsewhere(NodeId at, NodeId id, Network::LinkId link) {
  Elsewhere referral = node(at).elsewhere;
  referral.record = node(at).election.newest();
  net_.send(link, id, [this, at, id, link, referral, where = node(at).elsewhere_at] {
    const auto before = node(id).coordinator;
    if (is_present(id) && node(id).link == link)
      on_elsewhere(id, referral, where, before && *before != at && who_answers(*before) == at);
  });
}

void Cluster::on_hello(NodeId at, NodeId id, Network::LinkId link, const RecordId& record) {
  Node& host = node(at);
  if (!listens(at)) return;
  if (const NodeId before = node(id).instead_of; host.leadership && before != 0) {
    coordinate(at, JobAbandoned{before});
    if (host.leadership && host.leadership->peers.contains(before))
      lose(at, before, "it left in order to rejoin", false);
  }
  if (host.leadership && record > host.leadership->newest) {
    const bool may_wait = host.leadership->newest == RecordId{} && options_.bug != Bug::no_waiting;
    if (!may_wait) stop_leading(at, {record.term, {}}, {});
    if (may_wait) coordinate(at, JobElsewhere{id, record.round});
    if (options_.bug == Bug::no_waiting) host.first_place = FirstPlace(1);
    return answer_elsewhere(at, id, link);
  }
  if (!host.leadership && host.end && options_.bug != Bug::silent_end)
    return net_.send(link, id, [this, id, link, end = *host.end] {
      if (is_present(id) && node(id).link == link) on_message(id, EndJob{end, true});
    });
  if (!host.leadership) return answer_elsewhere(at, id, link);
  Leadership& leadership = *host.leadership;
  if (leadership.peers.contains(id)) lose(at, id, "it reconnected", false);
  const TimePoint now = net_.now();
  leadership.peers[id] = {link, now, {{0, now}}};
  for (const auto& other : nodes_)  // it may have taken a dead one's port
    if (other->id != id && other->at_place && !listens(other->id) && who_answers(other->id) == id)
      coordinate(at, NodeGone{other->id});
  if (!host.leadership) return;
  leadership.contact.answered(id, now);
  const Welcome welcome{"", kLease, leadership.coordinator.term(), quorum_age(leadership, at)};
  net_.send(link, id, [this, id, link, at, welcome] {
    if (!is_present(id) || node(id).link != link) return;
    node(id).coordinator = at;
    node(id).turn = 0;
    on_welcome(id, welcome);
  });
}

void Cluster::on_message(NodeId at, NodeId id, const FromAgent& message) {
  Node& host = node(at);
  if (!host.leadership || !host.leadership->peers.contains(id)) return;
  Leadership& leadership = *host.leadership;
  Peer& peer = leadership.peers.at(id);
  peer.heard = net_.now();
  std::visit(overloaded{
                 [](const Hello&) {},
                 [](const FailureText&) {},
                 [](const VoteRequest&) {},
                 [](const CoordinatorAnnouncement&) {},
                 [](const ClientRequest&) {},
                 [&](const Heartbeat& m) {
                   if (m.loop_stood >= kLoopLimit) return lose(at, id, "its agent has been stuck", false);
                   if (const auto sent = peer.answers.find(m.answered); sent != peer.answers.end())
                     leadership.contact.answered(id, sent->second);
                   peer.answers[m.number] = net_.now();
                   if (peer.answers.size() > 8) peer.answers.erase(peer.answers.begin());
                   to_node(at, id, HeartbeatAnswer{m.number, quorum_age(leadership, at)});
                 },
                 [&](const NodeReady& m) {
                   coordinate(at, m);
                   send_record_to_spare(at, id);
                 },
                 [&](const auto& m) { coordinate(at, m); },
             },
             message);
}

void Cluster::send_record_to_standbys(NodeId at) {
  const Round& record = *node(at).leadership->record;
  for (std::size_t i = 0; i < std::min(record.nodes.size(), kStandbys); ++i)
    to_node(at, record.nodes[i].id, KeepRecord{record});
}

void Cluster::send_record_to_spare(NodeId at, NodeId id) {
  const auto& leadership = node(at).leadership;
  if (leadership && leadership->record && !leadership->record->find(id))
    to_node(at, id, KeepRecord{*leadership->record});
}

void Cluster::lose(NodeId at, NodeId id, const std::string& how, bool closed) {
  Leadership& leadership = *node(at).leadership;
  const Peer peer = leadership.peers.extract(id).mapped();
  net_.close(peer.link);
  if (!closed && is_present(id) && node(id).link == peer.link && net_.reaches(at, id))
    net_.after(5ms, [this, id, link = peer.link] {
      if (is_present(id) && node(id).link == link) try_again(id, kPause, false);
    });
  leadership.workers_by_users.erase(id);  // it may not know of them yet
  const int serial = leadership.serial;
  const bool fence = options_.bug != Bug::no_fence;
  coordinate(at, NodeLost{id, fence ? peer.heard + kLease + kLeaseMargin : net_.now(), how});
  probe(at, serial, id);
}

// Repeats until it is refused, or the node is back.
void Cluster::probe(NodeId at, int serial, NodeId id) {
  net_.after(net_.milliseconds(100), [this, at, serial, id] {
    Node& host = node(at);
    if (!listens(at) || !host.leadership || host.leadership->serial != serial) return;
    if (!host.leadership->coordinator.awaits(id)) return;
    if (host.leadership->peers.contains(id)) return;
    const Node& other = node(id);
    if (other.running.empty() && !listens(id) && !other.host_down && who_answers(id) == id && net_.reaches(at, id))
      return coordinate(at, NodeGone{id});
    net_.after(1s, [this, at, serial, id] { probe(at, serial, id); });
  });
}

void Cluster::check_leases(NodeId at, int serial) {
  Node& host = node(at);
  if (!listens(at) || !host.leadership || host.leadership->serial != serial) return;
  if (!host.leadership->coordinator.is_over() && quorum_age(*host.leadership, at) > kLease) {
    note(at, "stops coordinating: too many nodes are unreachable");
    return stop_leading(at, {host.leadership->coordinator.term(), {}}, {});
  }
  std::vector<NodeId> silent;
  for (const auto& [id, peer] : host.leadership->peers)
    if (net_.now() - peer.heard >= kLease) silent.push_back(id);
  for (const NodeId id : silent)
    if (host.leadership && host.leadership->serial == serial) lose(at, id, "no heartbeat for 5 s", false);
  net_.after(kCheckInterval, [this, at, serial] { check_leases(at, serial); });
}

Duration Cluster::quorum_age(Leadership& leadership, NodeId self) {
  const TimePoint now = net_.now();
  if (options_.bug == Bug::no_quorum) return {};
  if (now >= leadership.contact_known_at + kContactEvery) {
    leadership.contact_at = leadership.contact.latest(leadership.coordinator.electorates(), self, now);
    leadership.contact_known_at = now;
  }
  return now - std::max(leadership.contact_at, now - 2 * kLease);
}

void Cluster::coordinate(NodeId at, const Message& message) {
  Node& host = node(at);
  if (!host.leadership) return;
  tell_spent(*host.leadership, message);
  const std::vector<Order> orders = host.leadership->coordinator.on(message, net_.now());
  check_account(*host.leadership);
  for (const Order& order : orders) execute(at, order);
  schedule_coordinator_tick(at);
}

// Before a node is ready again, or reports a failure, it tells what it has measured: here anything at all.
void Cluster::tell_spent(Leadership& leadership, const Message& message) {
  const auto* ready = std::get_if<NodeReady>(&message);
  const auto* failed = std::get_if<WorkerFailed>(&message);
  if (!ready && !failed) return;
  const auto up_to = [this](int seconds) { return std::chrono::seconds(measured_() % static_cast<unsigned>(seconds)); };
  RoundSpent spent{.reports = true, .start = up_to(20), .restore = up_to(20), .train = up_to(400)};
  spent.doing = kTimeKinds[measured_() % kTimeKinds.size()].kind;
  spent.since_progress = up_to(50);
  spent.unfinished = up_to(20);
  spent.steps = measured_() % 100;
  spent.first_step = measured_() % 100;
  spent.last_step = measured_() % 200;
  const NodeId node = ready ? ready->node : failed->failure.node;
  leadership.coordinator.on(NodeSpent{node, leadership.newest.round, spent}, net_.now());
}

// The parts of the job's time add up to the time that has passed. From one coordinator to the next the time is lost in
// which the round's record was sent, and no more.
void Cluster::check_account(Leadership& leadership) {
  const TimeAccount account = leadership.coordinator.account(net_.now());
  for (const TimeKindName& one : kTimeKinds)
    invariant(account[one.kind] >= Duration::zero(), "no part of the account is negative");
  const auto [began, fresh] = jobs_began_.try_emplace(leadership.job, net_.now() - account.total());
  const TimePoint begin = net_.now() - account.total();
  invariant(begin >= began->second, "the account has no more than the job's time");
  if (!leadership.account_begins) leadership.account_begins = begin;
  invariant(*leadership.account_begins == begin, "the account adds up to the time that has passed");
}

void Cluster::execute(NodeId at, const Order& order) {
  Leadership& leadership = *node(at).leadership;
  const auto to_round = [&](const ToAgent& message) {
    for (const NodeId id : leadership.round) to_node(at, id, message);
  };
  std::visit(overloaded{
                 [&](const FormRound& o) { form(at, o.round); },
                 [&](const StartRound& o) {
                   note(in_words(leadership.newest) + " starts");
                   to_round(o);
                   leadership.record->previous_electorates.clear();
                   for (const auto& [id, peer] : leadership.peers) send_record_to_spare(at, id);
                 },
                 [&](const EndRound& o) {
                   note(in_words(leadership.newest) + " ends: " + o.reason);
                   to_round(o);
                 },
                 [&](const EndJob& o) {
                   note("the job ends: " + o.outcome.reason);
                   const bool first = !ended_by_;
                   if (first) {
                     ended_by_ = leadership.serial;
                     ended_at_ = net_.now();
                     cut_at_end_ = cuts_ > 0;
                   }
                   if (o.outcome.verdict == Verdict::too_few_nodes || o.outcome.verdict == Verdict::too_few_left)
                     invariant(!has_enough_nodes(), "nobody times out waiting for nodes that are there");
                   if (first) {
                     end_ = o.outcome;
                     for (const NodeId id : leadership.round) node(id).in_last_round = leadership.peers.contains(id);
                   }
                   for (const auto& [id, peer] : leadership.peers) to_node(at, id, o);
                   if (first && options_.kill_at_end > 0 && net_.chance(options_.kill_at_end))
                     net_.after(net_.milliseconds(20), [this, at] {
                       if (node(at).alive) kill_agent(at);
                     });
                 },
                 [&](const AllNotified& o) {
                   for (const auto& [id, peer] : leadership.peers) to_node(at, id, o);
                 },
                 [&](const Recall& o) {
                   to_node(at, o.node, EndRound{o.round, false, o.reason});
                 },
                 [&](const Dismiss& o) {
                   note(o.node, "is dismissed: " + o.outcome.reason);
                   to_node(at, o.node, EndJob{o.outcome, o.for_all});
                 },
                 [&](const Exclude& o) {
                   note(o.node, "is excluded: " + o.why);
                   to_node(at, o.node, Excluded{o.why, o.lasts});
                 },
                 [&](const AskStandings& o) { to_round(o); },
                 [&](const BlameWorker& o) { to_node(at, o.node, o); },
                 [&](const JobReply& o) { note_act(at, o); },
                 [&](const KeepRange& o) {
                   for (const auto& [id, peer] : leadership.peers) to_node(at, id, o);
                 },
                 [&](const ReportPace& o) { to_node(at, o.node, o); },
                 [&](const HandOver& o) {
                   note(at, "hands over to node" + std::to_string(o.successor));
                   leadership.record->previous_electorates.clear();
                   send_record_to_standbys(at);
                   for (const auto& [id, peer] : leadership.peers) send_record_to_spare(at, id);
                   stop_leading(at, {leadership.coordinator.term(), {}}, {});
                 },
                 [](const auto&) {},
             },
             order);
}

void Cluster::form(NodeId at, const Round& decided) {
  Leadership& leadership = *node(at).leadership;
  Round round = decided;
  round.master_host = store_host(round.nodes.front().id, leadership.job);
  const JobRound key{leadership.job, round.id()};
  leadership.newest = round.id();
  note(in_words(round.id()) + " forms of " + std::to_string(round.nodes.size()) + " nodes, at node" +
       std::to_string(at));
  invariant(round.ledger.counts.spent() <= options_.max_restarts, "never more restarts than allowed");
  const int nodes = static_cast<int>(round.nodes.size());
  std::set<NodeId> all_but_one;  // of users' sizes: more nodes only as far as a quorum needs them
  for (const RoundNode& member : round.nodes)
    if (member.id != round.nodes.back().id) all_but_one.insert(member.id);
  const bool needed = std::any_of(round.previous_electorates.begin(), round.previous_electorates.end(),
                                  [&](const Electorate& one) { return !one.has_quorum(all_but_one); });
  invariant(std::any_of(sizes_.begin(), sizes_.end(),
                        [&](const auto& size) {
                          return nodes >= size.first && (nodes <= size.second || (sizes_.size() > 1 && needed));
                        }),
            "no round has too few nodes or too many");
  std::set<NodeId> seen;
  int rank = 0;
  for (const RoundNode& member : round.nodes) {
    invariant(seen.insert(member.id).second && member.first_rank == rank, "every rank is held once");
    rank += member.workers;
    const auto by_user = leadership.workers_by_users.find(member.id);
    invariant(by_user == leadership.workers_by_users.end() || by_user->second == member.workers,
              "a node has the workers that a user has given it");
  }
  check_snapshots(round);
  rounds_from_snapshots_ += round.kept.has_value();
  formed_[key] = round.nodes;
  charged_ = round.ledger.counts;
  for (const RoundNode& member : round.nodes) to_confirm_[key].insert(member.id);
  leadership.round.clear();
  for (const RoundNode& member : round.nodes) leadership.round.push_back(member.id);
  if (net_.chance(options_.failure)) failing_[key] = round.nodes[net_.draw() % round.nodes.size()].id;
  if (net_.chance(options_.hang)) hanging_[key] = round.nodes[net_.draw() % round.nodes.size()].id;
  leadership.record = round;
  for (const auto& [id, peer] : leadership.peers) send_record_to_spare(at, id);
  send_record_to_standbys(at);
  const std::vector<Seat> all = seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) {
    to_node(at, round.nodes[i].id, TakeSeat{all[i], round.term});
    if (options_.bug == Bug::no_confirmation) to_node(at, round.nodes[i].id, StartRound{round.number});
  }
}

void Cluster::to_node(NodeId at, NodeId id, const ToAgent& message) {
  const Leadership& leadership = *node(at).leadership;
  const auto found = leadership.peers.find(id);
  if (found == leadership.peers.end()) return;
  const auto* end = std::get_if<EndJob>(&message);
  const bool first_end = end && end->for_all && ended_by_ == leadership.serial;
  net_.send(found->second.link, id, [this, id, link = found->second.link, message, first_end] {
    if (node(id).link != link) return;
    if (first_end && is_present(id)) notified_first_.insert(id);
    on_message(id, message);
  });
}

void Cluster::schedule_coordinator_tick(NodeId at) {
  auto& leadership = node(at).leadership;
  if (!leadership) return;
  const auto deadline = leadership->coordinator.next_deadline();
  if (!deadline || leadership->tick_at == deadline) return;
  leadership->tick_at = deadline;
  net_.after(std::max(*deadline - net_.now(), Duration::zero()),
             [this, at, due = *deadline, serial = leadership->serial] {
               auto& then = node(at).leadership;
               if (!then || then->serial != serial) return;
               if (then->tick_at == due) then->tick_at.reset();
               if (then->coordinator.next_deadline() == due) coordinate(at, CoordinatorTick{});
             });
}

void Cluster::dispatch(NodeId id, const agent::Event& event) {
  if (stands(id)) return on_loop(id, [this, id, event] { dispatch(id, event); });
  Node& self = node(id);
  if (!is_present(id)) return;
  self.events.push_back(event);
  if (std::exchange(self.handling, true)) return;
  for (; !self.events.empty(); self.events.pop_front())
    for (const agent::Action& action : self.supervisor.on(self.events.front(), net_.now())) execute(id, action);
  self.handling = false;
  schedule_tick(id);
}

void Cluster::execute(NodeId id, const agent::Action& action) {
  Node& self = node(id);
  invariant(!self.finished, "nothing is done after Finish");
  std::visit(overloaded{
                 [&](const agent::ConfirmRound& a) {
                   to_confirm_[{self.job, self.newest}].erase(id);
                   from_loop(id, NodeConfirmed{id, a.round});
                 },
                 [&](const agent::StartWorkers& a) { start(id, a.seat); },
                 [&](const agent::SignalWorkers& a) { signal_workers(id, a.signal); },
                 [&](const agent::SweepLeftovers& a) { sweep(id, a.round); },
                 [&](const agent::ReportRunning& a) {
                   from_loop(id, NodeRunning{id, a.round});
                 },
                 [&](const agent::ReportDone& a) {
                   from_loop(id, NodeDone{id, a.round});
                 },
                 [&](const agent::ReportFailure& a) {
                   note(id, "a worker fails");
                   from_loop(id, WorkerFailed{{a.round, id, a.local_rank, 0, a.status}});
                 },
                 [&](const agent::ReportInterrupted&) { send_signal(id); },
                 [&](const agent::Rejoin&) {
                   from_loop(id, NodeReady{id, self.offer});
                 },
                 [&](const agent::Finish& a) { finish(id, a.outcome); },
                 [](const auto&) {},
             },
             action);
}

bool Cluster::may_leave(NodeId id) {
  const Node& self = node(id);
  return !self.end || self.all_notified || net_.now() >= self.leave_deadline || options_.bug == Bug::silent_end;
}

void Cluster::set_leave_deadline(NodeId id) {
  node(id).leave_deadline = std::min(node(id).leave_deadline, net_.now() + kLease + kLeaseMargin);
}

void Cluster::finish(NodeId id, const Outcome& outcome) {
  Node& self = node(id);
  invariant(self.running.empty(), "an agent that finishes has no workers");
  note(id, "finishes: " + outcome.reason);
  check_progress(id, outcome);
  self.finished_with = outcome;
  leave_when_notified(id, net_.now() + kLeaveLimit);
}

// It stays until all know of the end; a coordinator stays until it has told them.
void Cluster::leave_when_notified(NodeId id, TimePoint at_last) {
  if (stands(id)) return on_loop(id, [this, id, at_last] { leave_when_notified(id, at_last); });
  Node& self = node(id);
  if (!is_present(id)) return;
  if (!may_leave(id) && net_.now() < at_last)
    return net_.after(50ms, [this, id, at_last] { leave_when_notified(id, at_last); });
  disconnect(id);
  self.finished = true;
  if (self.leadership && !self.leadership->coordinator.is_over()) on_disturbance();  // the coordinator is lost with it
  all_alive_since_.reset();
  const Verdict verdict = self.finished_with->verdict;
  if (verdict == Verdict::out_of_reach || verdict == Verdict::too_few_left) restart_slot(self.slot);
  exit_when_left(id, at_last);
}

void Cluster::exit_when_left(NodeId id, TimePoint at_last) {
  if (stands(id)) return on_loop(id, [this, id, at_last] { exit_when_left(id, at_last); });
  Node& self = node(id);
  const bool left = !self.leadership || (self.leadership->coordinator.all_notified() && self.leadership->peers.empty());
  if (!left && net_.now() < at_last) return net_.after(100ms, [this, id, at_last] { exit_when_left(id, at_last); });
  self.exited = true;
  vanish(id);
}

void Cluster::signal_workers(NodeId id, int signal) {
  Node& self = node(id);
  if (!stands(id)) self.starting = false;
  for (const int rank : self.running) {
    if (signal != SIGKILL && self.ignoring_sigterm.contains(rank)) continue;
    net_.after(signal == SIGKILL ? net_.milliseconds(20) : net_.milliseconds(500),
               [this, id, round = self.round, rank, signal] { end_worker(id, round, rank, {.signal = signal}); });
  }
}

void Cluster::start(NodeId id, const Seat& seat) {
  Node& self = node(id);
  invariant(self.running.empty(), "no local rank is started twice");
  self.round = {self.job, self.newest};
  invariant(to_confirm_[self.round].empty(), "workers start once every agent has confirmed the round");
  keep_snapshots(id, seat);
  self.ignoring_sigterm.clear();
  self.starting = true;
  start_from(id, seat, self.round, 0, options_.slow_starts > 0 && net_.chance(options_.slow_starts));
}

void Cluster::start_from(NodeId id, const Seat& seat, const JobRound& round, int rank, bool slowly) {
  if (stands(id))
    return on_loop(id, [this, id, seat, round, rank, slowly] { start_from(id, seat, round, rank, slowly); });
  Node& self = node(id);
  if (!is_present(id) || self.round != round || !self.starting) return;
  for (bool first = true; rank < seat.workers; ++rank) {
    if (!std::exchange(first, false) && slowly)
      return net_.after(net_.milliseconds(1'000),
                        [this, id, seat, round, rank] { start_from(id, seat, round, rank, true); });
    if (self.fences > 0 && options_.bug != Bug::old_orders) return;
    check_invariants(id, round);
    self.running.insert(rank);
    count_running(round, 1);
    if (net_.chance(options_.ignore_sigterm)) self.ignoring_sigterm.insert(rank);
    dispatch(id, agent::WorkerStarted{seat.round, rank});
  }
  self.starting = false;
  open_store_session(id, seat);
}

void Cluster::check_snapshots(const Round& round) const {
  if (!round.kept) return;
  invariant(static_cast<int>(round.kept->holders.size()) == round.world_size(),
            "each rank has a snapshot to go on from");
  int rank = 0;
  for (const auto& holder : round.kept->holders) {
    const HeldSnapshot wanted{rank++, round.world_size(), round.kept->round, round.kept->step};
    const auto& held = nodes_.at(holder.node - 1)->offer.held;
    invariant(std::find(held.begin(), held.end(), wanted) != held.end(), "a rank's snapshot is where its seat says");
  }
}

// Of its own ranks and those of the node before: what they go on from, and some steps of this round.
void Cluster::keep_snapshots(NodeId id, const Seat& seat) {
  const std::vector<RoundNode>& nodes = formed_.at(node(id).round);
  const auto own = static_cast<std::size_t>(seat.group_rank);
  std::vector<HeldSnapshot> held;
  for (const std::size_t at : {own, (own + nodes.size() - 1) % nodes.size()})
    for (int rank = nodes[at].first_rank; rank < nodes[at].first_rank + nodes[at].workers; ++rank) {
      if (seat.kept) held.push_back({rank, seat.world_size, seat.kept->round, seat.kept->step});
      const int steps = (seat.round + rank) % 3 == 0 ? 1 : 2;
      for (int step = 1; step <= steps; ++step)
        held.push_back({rank, seat.world_size, seat.round, static_cast<std::uint64_t>(step)});
    }
  node(id).offer.held = held;
}

void Cluster::count_running(const JobRound& round, int change) {
  if ((running_[round] += change) == 0) running_.erase(round);
}

void Cluster::end_worker(NodeId id, const JobRound& round, int local_rank, const ExitStatus& status) {
  Node& self = node(id);
  if (self.round != round || !self.running.erase(local_rank)) return;  // it has ended already
  count_running(round, -1);
  if (self.running.empty()) close_store_session(id);
  dispatch(id, agent::WorkerExited{round.id.round, local_rank, status});
}

// Processes that a driver blocks end late, or are given up.
void Cluster::sweep(NodeId id, int round) {
  node(id).starting = false;
  invariant(node(id).running.empty(), "a round is swept when its workers are gone");
  if (!net_.chance(options_.slow_sweep)) return dispatch(id, agent::Swept{round});
  note(id, "the kernel holds what is left of its workers");
  net_.after(net_.milliseconds(12'000), [this, id, round] { dispatch(id, agent::Swept{round}); });
}

void Cluster::schedule_tick(NodeId id) {
  if (const auto deadline = node(id).supervisor.next_deadline())
    net_.after(std::max(*deadline - net_.now(), Duration::zero()), [this, id, due = *deadline] {
      if (node(id).supervisor.next_deadline() == due) dispatch(id, agent::Tick{});
    });
}

// Ranks are decided once per round, so no rank is held twice while all running workers belong to one round.
void Cluster::check_invariants(NodeId id, const JobRound& starting) {
  for (const auto& [round, workers] : running_)
    if (round != starting)
      throw std::logic_error("broken: no worker of another round runs when one starts: " + in_words(starting.id) +
                             " on node" + std::to_string(id) + ", " + in_words(round.id) + " elsewhere");
  if (!started_.insert(starting).second) return;
  invariant(starting.id.round > last_started_[starting.job], "round numbers grow");
  last_started_[starting.job] = starting.id.round;
}

}  // namespace ddprun::test
