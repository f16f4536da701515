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

constexpr Duration kLease = 5s, kBeyondLease = 1s, kBeat = kLease / 4, kLook = kLease / 10, kContactEvery = 100ms;
constexpr Duration kPause = 200ms, kTryLimit = 5s, kCallAgain = 1s, kCallAgainFor = 60s, kAlone = 30s, kGoodbye = 30s;
constexpr Duration kAloneUnseated = 600s, kSettled = 15s, kNewJobLimit = 5s, kHealthy = 90s;
constexpr int kStartsMax = 60, kReturnsWithinMs = 10'000, kSlowNameMs = 8'000, kBusyMs = 60'000;

// Called a million times a second: the message is built only if it does not hold.
void invariant(bool holds, const char* words) {
  if (!holds) throw std::logic_error(std::string("broken: ") + words);
}

rendezvous::RoundPolicy policy_of(const ClusterOptions& options) {
  return {.nodes_min = options.nodes_min,
          .nodes_max = options.nodes_max,
          .fixed_ranks = options.fixed_ranks,
          .restarts = {.max_restarts = options.max_restarts}};
}

// A seat names its job, too, only for the simulation.
std::string store_host(rendezvous::NodeId id, int job) {
  return "node" + std::to_string(id) + " " + std::to_string(job);
}
int job_of(const std::string& store_host) { return std::stoi(store_host.substr(store_host.find(' '))); }

std::string in_words(const rendezvous::RecordId& id) {
  return "round " + std::to_string(id.round) + " of term " + std::to_string(id.term);
}

}  // namespace

Cluster::Cluster(const ClusterOptions& options) : options_(options), net_(options.seed) {
  for (int i = 0; i < options.agents; ++i) add_node(net_.milliseconds(60'000), slots_.size());
  disturbed();
  plan_troubles();
}

rendezvous::NodeId Cluster::add_node(Duration when, std::size_t slot) {
  const rendezvous::NodeId id = nodes_.size() + 1;
  nodes_.push_back(std::make_unique<Node>(id, slot, options_));
  if (slot == slots_.size())
    slots_.push_back(0);
  else
    net_.put(id, net_.side(slots_[slot]));
  slots_[slot] = id;
  node(id).offer = {
      .workers = 1 + net_.up_to(options_.workers_max - 1), .host = "node" + std::to_string(id), .port = 1000};
  if (options_.fixed_ranks) node(id).offer.wished_rank = static_cast<int>(slot);
  if (slot < static_cast<std::size_t>(options_.places)) {
    const bool busy = options_.busy_ports > 0 && net_.chance(options_.busy_ports);
    net_.after(busy ? net_.milliseconds(kBusyMs) : Duration::zero(), [this, id] { take_place(id); });
  }
  net_.after(when, [this, id] { connect(id); });
  return id;
}

void Cluster::take_place(rendezvous::NodeId id) {
  if (!here(id)) return;
  Node& self = node(id);
  self.at_place = true;
  if (self.slot != 0) return;
  self.first_place.take();
  lead_if_first(id);
}

void Cluster::lead_if_first(rendezvous::NodeId id) {
  Node& self = node(id);
  if (!self.office && self.first_place.begins(self.election.newest(), net_.now())) lead(id, {}, {});
}

// Done by whatever restarts nodes: a person, a scheduler.
void Cluster::start_again(std::size_t slot) {
  if (!options_.returns || ended_by_ || ++starts_ > kStartsMax) return;
  net_.after(net_.milliseconds(kReturnsWithinMs), [this, slot] {
    if (ended_by_ || here(slots_[slot])) return;
    node(slots_[slot]).host_down = false;
    close_links(slots_[slot]);
    note(add_node({}, slot), "is started again, in the place of node" + std::to_string(slots_[slot]));
    disturbed();
  });
}

void Cluster::plan_troubles() {
  if (net_.chance(options_.interrupt))
    net_.after(net_.milliseconds(600'000), [this] {
      const auto all = living();
      if (!all.empty()) signal(all[net_.draw() % all.size()], SIGINT);
    });
  for (int i = 0; i < options_.kills; ++i) some_time(&Cluster::kill_agent, i < options_.beheads);
  for (int i = 0; i < options_.cuts; ++i) some_time(&Cluster::cut, i < options_.beheads);
  for (int i = 0; i < options_.leaves; ++i) some_time(&Cluster::leave, i < options_.beheads);
  for (int i = 0; i < options_.joins; ++i) net_.after(net_.milliseconds(options_.trouble_ms), [this] { join(); });
}

void Cluster::some_time(void (Cluster::*trouble)(rendezvous::NodeId), bool behead) {
  net_.after(net_.milliseconds(options_.trouble_ms), [this, trouble, behead] {
    const auto all = living();
    if (all.empty()) return;
    const auto head = leader();
    (this->*trouble)(behead && head ? *head : all[net_.draw() % all.size()]);
  });
}

void Cluster::run() {
  for (int events = 0; net_.step(); ++events) invariant(events < 20'000'000, "the job comes to an end");
  for (const auto& one : nodes_) {
    invariant(one->finished || !one->alive, "every agent finishes");
    invariant(one->running.empty(), "no worker is left at the end");
  }
  end_alike();
}

// Whatever happens to the coordinator that decided the job's end: if one node that received it lives, all end alike.
void Cluster::end_alike() {
  for (const auto& one : nodes_)
    if (told_first_.contains(one->id) && one->alive && !one->left) outcomes_.push_back(*one->finished_with);
  const bool nobody_knows = std::none_of(told_first_.begin(), told_first_.end(), [&](rendezvous::NodeId id) {
    return node(id).alive && node(id).in_last_round;
  });
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

std::vector<rendezvous::NodeId> Cluster::living() {
  std::vector<rendezvous::NodeId> out;
  for (const auto& one : nodes_)
    if (here(one->id)) out.push_back(one->id);
  return out;
}

std::optional<rendezvous::NodeId> Cluster::leader() {
  for (const rendezvous::NodeId id : living())
    if (node(id).office && !node(id).office->coordinator.is_over()) return id;
  return {};
}

std::optional<rendezvous::NodeId> Cluster::first_seated(rendezvous::NodeId but) {
  while (!seated_.empty() && !here(*seated_.begin())) seated_.erase(seated_.begin());
  for (const rendezvous::NodeId id : seated_)
    if (id != but && here(id)) return id;
  return {};
}

void Cluster::kill_agent(rendezvous::NodeId id) {
  Node& victim = node(id);
  victim.host_down = options_.silent > 0 && net_.chance(options_.silent);
  note(id, victim.host_down ? "its host is gone" : "its agent is killed");
  victim.alive = false;
  net_.after(20ms, [this, id] {  // done by its keeper
    Node& dead = node(id);
    count_running(dead.round, -static_cast<int>(dead.running.size()));
    dead.running.clear();
    leave_store(id);
  });
  vanish(id);
  disturbed();
  start_again(victim.slot);
}

// Its links close if the other end is reachable; soon its port refuses connections.
void Cluster::vanish(rendezvous::NodeId id) {
  node(id).office.reset();
  if (!node(id).host_down) close_links(id);
}

void Cluster::close_links(rendezvous::NodeId id) {
  std::vector<rendezvous::NodeId> others;
  for (const auto& one : nodes_)
    if (one->id != id && one->alive && net_.reaches(id, one->id)) others.push_back(one->id);
  net_.after(5ms, [this, id, others = std::move(others)] {
    for (const rendezvous::NodeId other : others) {
      const Node& peer = node(other);
      if (!listens(other)) continue;
      if (peer.office && peer.office->peers.contains(id)) lose(other, id, "its connection was closed", true);
      if (peer.link && peer.coordinator == id) try_again(other, kPause, false);
      close_store(id, other);
    }
  });
}

// Some nodes on one side, the rest on the other.
void Cluster::cut(rendezvous::NodeId id) {
  std::vector<rendezvous::NodeId> apart{id};
  for (const rendezvous::NodeId other : living())
    if (other != id && net_.chance(0.3)) apart.push_back(other);
  const int side = ++sides_;
  ++cuts_;
  cut_at_end_ = cut_at_end_ || ended_by_;
  for (const rendezvous::NodeId one : apart) net_.put(one, side), note(one, "out of the others' reach");
  break_visits();
  disturbed();
  net_.after(net_.milliseconds(20'000), [this, apart] {
    for (const rendezvous::NodeId one : apart) {
      net_.put(one, 0);
      net_.put(slots_[node(one).slot], 0);
      note(one, "in reach again");
    }
    --cuts_;
    disturbed();
  });
}

void Cluster::leave(rendezvous::NodeId id) {
  note(id, "SIGTERM");
  node(id).left = true;
  signal(id, SIGTERM);
}

// Uses the first free slot; but not at the first place if new nodes alone could form a round, and begin another job
// before they are told that this one continues.
void Cluster::join() {
  if (ended_by_ || (!started_.empty() && !first_seated())) return;  // it would be another job
  std::size_t slot = options_.fixed_ranks || options_.nodes_max > options_.joins ? 0 : 1;
  while (slot < slots_.size() && here(slots_[slot])) ++slot;
  note(add_node({}, slot), slot == 0 ? "comes, to the first place" : "comes");
}

// The job cannot continue here.
void Cluster::begin_anew(rendezvous::NodeId id) {
  Node& self = node(id);
  if (std::exchange(self.abandons, true)) return;
  note(id, "gives up the job");
  hang_up(id);
  happen(id, agent::Isolated{});
  succeed_itself(id);
}

// Called once its workers are gone.
void Cluster::succeed_itself(rendezvous::NodeId id) {
  Node& self = node(id);
  if (!here(id)) return;
  if (self.supervisor.round_with_workers()) return net_.after(50ms, [this, id] { succeed_itself(id); });
  self.finished = self.exited = true;
  vanish(id);
  if (self.signal != 0) return;
  const rendezvous::NodeId next = add_node({}, self.slot);
  node(next).instead_of = id;
  node(next).begins_anew = node(next).seated = true;
  node(next).in_last_round = std::exchange(self.in_last_round, false);  // it is the same agent
  node(next).offer.rounds = node(id).newest.round;
  node(next).alone_since = net_.now();
  note(next, "begins anew, instead of node" + std::to_string(id));
}

void Cluster::signal(rendezvous::NodeId id, int signal) {
  node(id).signal = signal;
  happen(id, agent::Signalled{signal});
  disturbed();
}

void Cluster::disturbed() {
  calm_since_.reset();
  whole_since_.reset();
  if (cuts_ > 0) return;
  if (is_whole()) whole_since_ = net_.now();
  calm_since_ = net_.now();
  quorum_at_calm_ = quorum_in_reach();
}

// Two heartbeats can tell it that a quorum is back before it has to stop. (Only it knows which nodes are gone for good:
// its record has more, so another node may lack a quorum that it had.)
bool Cluster::stays_coordinator(rendezvous::NodeId id) {
  const Office& office = *node(id).office;
  const TimePoint contact = office.contact.latest(office.coordinator.electorates(), id, net_.now());
  return contact > net_.now() - kLease + 2 * kBeat + 500ms;
}

// Whether, among the nodes that stay for a while, one coordinates or can be elected by its record. No node votes for a
// record older than its own.
bool Cluster::quorum_in_reach() {
  std::vector<rendezvous::NodeId> there;
  for (const rendezvous::NodeId id : living()) {
    const Node& one = node(id);
    const Duration patience = one.seated ? kAlone : kAloneUnseated;
    if (!one.left && (!one.alone_since || *one.alone_since + patience >= net_.now() + kSettled)) there.push_back(id);
  }
  const auto have_quorum = [&](const std::vector<rendezvous::Electorate>& electorates,
                               const rendezvous::RecordId& record) {
    std::set<rendezvous::NodeId> voters;
    for (const rendezvous::NodeId id : there)
      if (node(id).newest <= record) voters.insert(id);
    return std::all_of(electorates.begin(), electorates.end(),
                       [&](const rendezvous::Electorate& one) { return one.has_quorum(voters); });
  };
  std::set<rendezvous::RecordId> tried;
  return std::any_of(there.begin(), there.end(), [&](rendezvous::NodeId id) {
    const auto& office = node(id).office;
    if (office && !office->coordinator.is_over() && stays_coordinator(id)) {
      const auto electorates = office->coordinator.electorates();
      if (have_quorum(electorates, office->newest)) return true;
    }
    const auto& record = node(id).election.record();
    return record && tried.insert(record->id()).second && have_quorum(record->electorates(), record->id());
  });
}

bool Cluster::is_whole() {
  return std::all_of(slots_.begin(), slots_.end(), [&](rendezvous::NodeId id) { return here(id) && !node(id).left; });
}

bool Cluster::enough_are_there() {
  if (!calm_since_ || !quorum_at_calm_ || net_.now() < *calm_since_ + kSettled) return false;
  const auto all = living();
  return std::count_if(all.begin(), all.end(), [&](rendezvous::NodeId id) { return !node(id).left; }) >=
         options_.nodes_min;
}

// If faults have stopped with a quorum in reach, no node gives up: neither one that looks for the coordinator, nor the
// coordinator that waits for nodes.
void Cluster::hold_progress(rendezvous::NodeId id, const rendezvous::Outcome& outcome) {
  const Node& self = node(id);
  const bool without_round = outcome.verdict == rendezvous::Verdict::out_of_reach ||
                             outcome.verdict == rendezvous::Verdict::too_few_nodes ||
                             outcome.verdict == rendezvous::Verdict::too_few_left;
  if (without_round && !ended_by_ && whole_since_ && net_.now() >= *whole_since_ + kHealthy)
    throw std::logic_error("broken: healthy nodes always form a round, node" + std::to_string(id) + " among them");
  if (!calm_since_ || !quorum_at_calm_ || self.left || (ended_at_ && *ended_at_ < *calm_since_ + kSettled)) return;
  const Duration patience = self.seated ? kAlone : kAloneUnseated;
  if (outcome.verdict == rendezvous::Verdict::out_of_reach && net_.now() >= *calm_since_ + patience)
    throw std::logic_error("broken: an agent in reach of a quorum ends with the job's verdict, node" +
                           std::to_string(id) + " too");
}

std::vector<rendezvous::NodeId> Cluster::places(rendezvous::NodeId id) {
  const Node& self = node(id);
  std::vector<rendezvous::NodeId> out;
  if (self.coordinator) out.push_back(*self.coordinator);
  for (std::size_t i = 0; i < count_places(); ++i) out.push_back(slots_[i]);
  if (const auto second = first_seated(id); second && !options_.returns) out.push_back(*second);  // another endpoint
  for (std::size_t i = 0; self.kept && i < std::min<std::size_t>(8, self.kept->nodes.size()); ++i)
    out.push_back(self.kept->nodes[i].id);
  return out;
}

void Cluster::connect(rendezvous::NodeId id) {
  Node& self = node(id);
  if (!here(id) || self.link) return;
  const auto all = places(id);
  const std::size_t turn = static_cast<std::size_t>(self.turn) % all.size();
  const rendezvous::NodeId at = all[turn];
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
rendezvous::NodeId Cluster::who_answers(rendezvous::NodeId at) {
  if (listens(at) || !node(at).at_place) return at;
  const rendezvous::NodeId now = slots_[node(at).slot];
  return listens(now) && node(now).at_place ? now : at;
}

bool Cluster::answers(rendezvous::NodeId at) { return listens(at) && !node(at).host_down; }

void Cluster::reach(rendezvous::NodeId id, rendezvous::NodeId at, int attempt, bool by_place) {
  Node& self = node(id);
  if (!here(id) || self.attempt != attempt) return;
  const rendezvous::NodeId wanted = std::exchange(at, who_answers(at));
  if (!answers(at) || (by_place && !node(at).at_place)) return try_again(id, kPause, self.coordinator == wanted);
  self.link = net_.open(id, at);
  self.beats_out = {{0, net_.now()}};
  net_.send(self.link, at, [this, id, at, link = self.link, record = self.newest] { hello(at, id, link, record); });
  net_.after(kTryLimit, [this, id, attempt] {
    if (node(id).attempt == attempt && !node(id).welcome) try_again(id, kPause, false);
  });
}

void Cluster::hang_up(rendezvous::NodeId id) {
  Node& self = node(id);
  const Network::LinkId link = std::exchange(self.link, 0);
  ++self.attempt;
  self.welcome = false;
  self.beats_out.clear();
  const rendezvous::NodeId other = net_.other_end(link, id);
  net_.close(link);
  const auto holds_it = [this, id, other, link] {
    const Node& at = node(other);
    if (!at.alive || !at.office) return false;
    const auto peer = at.office->peers.find(id);
    return peer != at.office->peers.end() && peer->second.link == link;
  };
  if (other == 0 || !holds_it() || !net_.reaches(id, other)) return;
  net_.after(5ms, [this, id, other, holds_it] {  // the other end sees it, if reachable
    if (holds_it()) lose(other, id, "its connection was closed", true);
  });
}

void Cluster::try_again(rendezvous::NodeId id, Duration pause, bool gone, const rendezvous::RecordId& known) {
  Node& self = node(id);
  if (!here(id)) return;
  hang_up(id);
  ++self.turn;
  net_.after(pause, [this, id, attempt = self.attempt] {
    if (node(id).attempt == attempt) connect(id);
  });
  self.first_place.asked(known, net_.now());
  if (self.end) await_no_longer(id);
  elect(id, rendezvous::OutOfTouch{gone, self.heard_at});
  if (!here(id) || self.abandons || self.end) return;
  lead_if_first(id);
  // As the agent does without a coordinator.
  if (!self.alone_since) self.alone_since = net_.now();
  if (self.supervisor.round_with_workers()) return;
  if (self.signal != 0)
    return happen(id, agent::JobEnded{{rendezvous::Verdict::interrupted, self.signal, "interrupted", {}}});
  const Duration patience = self.begins_anew ? kNewJobLimit : self.seated ? kAlone : kAloneUnseated;
  if (net_.now() - *self.alone_since < patience) return;
  happen(id, agent::JobEnded{{rendezvous::Verdict::out_of_reach, 0, "the coordinator could not be reached", {}}});
}

void Cluster::go_to(rendezvous::NodeId id, rendezvous::NodeId coordinator) {
  hang_up(id);
  node(id).coordinator = coordinator;
  node(id).turn = 0;
  connect(id);
}

void Cluster::welcomed(rendezvous::NodeId id, const rendezvous::Welcome& welcome) {
  Node& self = node(id);
  self.welcome = true;
  self.begins_anew = false;
  self.first_place.connected();
  self.heard_at = net_.now();
  self.answered = 0;
  heard_of_quorum(id, 0, welcome.quorum_age);
  elect(id, rendezvous::InTouch{welcome.term});
  if (self.coordinator != id) {
    self.calling.reset();
    stop_leading(id, {welcome.term, {}}, self.coordinator);
  } else if (self.led && self.led->term == welcome.term && !self.calling) {
    self.calling = self.led;
    call(id, welcome.term, net_.now() + kCallAgainFor);
  }
  self.alone_since.reset();
  beat(id, self.attempt);
  self.leaves_at = TimePoint::max();
  if (self.end) return to_coordinator(id, rendezvous::JobWasOver{id, *self.end});
  if (const auto round = self.supervisor.round_with_workers())
    to_coordinator(id, rendezvous::NodeBack{id, *round, self.offer});
  else
    to_coordinator(id, rendezvous::NodeReady{id, self.offer});
  tell_of_signal(id);
}

void Cluster::heard_of_quorum(rendezvous::NodeId id, std::uint64_t answered, Duration age) {
  Node& self = node(id);
  const auto beat = self.beats_out.find(answered);
  if (beat == self.beats_out.end()) return;
  self.answered = answered;
  self.contact = std::max(self.contact.value_or(TimePoint::min()), beat->second - age);
  self.beats_out.erase(self.beats_out.begin(), std::next(beat));
  watch_lease(id);
}

void Cluster::beat(rendezvous::NodeId id, int attempt) {
  net_.after(kBeat, [this, id, attempt] {
    Node& self = node(id);
    if (!here(id) || self.attempt != attempt || !self.welcome) return;
    self.beats_out[++self.beats] = net_.now();
    to_coordinator(id, rendezvous::Heartbeat{self.beats, self.answered});
    beat(id, attempt);
  });
}

void Cluster::watch_lease(rendezvous::NodeId id) {
  const TimePoint due = *node(id).contact + kLease;
  net_.after(std::max(due - net_.now(), Duration::zero()), [this, id, due] {
    Node& self = node(id);
    if (!here(id) || !self.contact || *self.contact + kLease != due) return;
    self.contact.reset();
    note(id, "no contact to a quorum for the lease");
    if (options_.broken != Break::no_lease) happen(id, agent::Isolated{});
    if (self.link) try_again(id, kPause, false);
  });
}

void Cluster::told_elsewhere(rendezvous::NodeId id, const rendezvous::Elsewhere& told,
                             std::optional<rendezvous::NodeId> at, bool replaced) {
  try_again(id, kPause, replaced, told.record);
  const Node& self = node(id);
  if (here(id) && at && self.election.would_follow(told.term) && at != self.coordinator) go_to(id, *at);
}

void Cluster::to_coordinator(rendezvous::NodeId id, const rendezvous::FromAgent& message) {
  const Node& self = node(id);
  if (!self.welcome) return;
  const rendezvous::NodeId at = *self.coordinator;
  net_.send(self.link, at, [this, at, id, message] {
    if (listens(at)) take(at, id, message);
  });
}

// A node that comes back repeats it.
void Cluster::tell_of_signal(rendezvous::NodeId id) {
  const int signal = node(id).signal;
  if (signal == SIGINT) to_coordinator(id, rendezvous::JobInterrupted{id, signal});
  if (signal == SIGTERM) to_coordinator(id, rendezvous::NodeLeaves{id, signal});
}

void Cluster::hear(rendezvous::NodeId id, const rendezvous::ToAgent& message) {
  Node& self = node(id);
  if (!here(id)) return;
  self.heard_at = net_.now();
  std::visit(overloaded{
                 [&](const rendezvous::HeartbeatAnswer& m) { heard_of_quorum(id, m.number, m.quorum_age); },
                 [&](const rendezvous::KeepRecord& m) { self.kept = m.record; },
                 [&](const rendezvous::TakeSeat& m) {
                   const rendezvous::RecordId record{m.term, m.seat.round};
                   if (self.kept && self.kept->id() != record) self.kept.reset();
                   elect(id, rendezvous::RecordKept{record, self.kept});
                   self.newest = record;
                   self.job = job_of(m.seat.master_host);
                   self.offer.rounds = record.round;
                   if (m.seat.group_rank == 0) open_store(id, {self.job, record});
                   self.seated = true;
                   seated_.insert(id);
                   happen(id, agent::RoundFormed{m.seat});
                 },
                 [&](const rendezvous::StartRound& m) {
                   elect(id, rendezvous::RoundBegan{m.round});
                   happen(id, agent::RoundStarted{m.round});
                 },
                 [&](const rendezvous::EndRound& m) {
                   happen(id, agent::RoundEnded{m.round, m.planned});
                 },
                 [&](const rendezvous::EndJob& m) {
                   if (m.for_all) {
                     to_coordinator(id, rendezvous::NodeTold{id});
                     if (std::exchange(self.end, self.end ? self.end : m.outcome)) return;
                     if (!self.welcome) await_no_longer(id);
                   }
                   happen(id, agent::JobEnded{m.outcome});
                 },
                 [&](const rendezvous::AllTold&) { self.all_told = true; },
                 [](const auto&) {},
             },
             message);
}

void Cluster::elect(rendezvous::NodeId id, const rendezvous::ElectionEvent& event, rendezvous::NodeId from) {
  if (!here(id) || node(id).abandons) return;
  if (options_.broken == Break::no_standing && std::holds_alternative<rendezvous::ElectionTick>(event)) return;
  rendezvous::Election& election = node(id).election;
  if (options_.broken == Break::vote_twice && std::holds_alternative<rendezvous::VoteRequested>(event)) {
    rendezvous::Election before = election;
    for (const rendezvous::ElectionAction& action : before.on(event, net_.now())) carry_out(id, action, from);
    return;
  }
  for (const rendezvous::ElectionAction& action : election.on(event, net_.now())) carry_out(id, action, from);
  plan_election(id);
}

void Cluster::carry_out(rendezvous::NodeId id, const rendezvous::ElectionAction& action, rendezvous::NodeId from) {
  std::visit(
      overloaded{
          [&](const rendezvous::AskForVotes& a) {
            node(id).calling.reset();
            note(id, "stands for term " + std::to_string(a.request.term));
            const auto request = std::make_shared<const rendezvous::VoteRequest>(a.request);
            for (const rendezvous::RoundNode& voter : request->record->nodes) {
              if (voter.id != id) ask_for_vote(id, voter.id, request);
            }
          },
          [&](const rendezvous::GiveVote& a) {
            if (a.vote.granted) votes_[{node(from).job, a.vote.term, from}].insert(id);
            net_.post(id, from, [this, from, id, vote = a.vote, end = node(id).end] {
              if (end) hear(from, rendezvous::EndJob{*end, true});
              elect(from, rendezvous::VoteGiven{id, vote});
              if (options_.broken != Break::count_twice || !node(from).election.record()) return;
              for (const auto record = node(from).election.record(); const rendezvous::RoundNode& other : record->nodes)
                if (other.id != id && other.id != from) return elect(from, rendezvous::VoteGiven{other.id, vote});
            });
          },
          [&](const rendezvous::Lead& a) { take_the_lead(id, a); },
          [&](const rendezvous::Follow&) {
            node(id).calling.reset();
            stop_leading(id, {node(id).election.term(), {}}, from);
            go_to(id, from);
          },
          [&](const rendezvous::GiveUp& a) {
            Node& self = node(id);
            if (self.end) return void(self.leaves_at = self.election.is_alone() ? net_.now() : self.leaves_at);
            if (a.certain) return begin_anew(id);
            happen(id, agent::JobEnded{
                           {rendezvous::Verdict::out_of_reach, 0, "the coordinator is gone, or out of reach", {}}});
          },
      },
      action);
}

// It may find no node there, or another one.
void Cluster::ask_for_vote(rendezvous::NodeId id, rendezvous::NodeId voter,
                           const std::shared_ptr<const rendezvous::VoteRequest>& request) {
  net_.post(id, voter, [this, voter, request, id] {
    if (here(voter)) return elect(voter, rendezvous::VoteRequested{*request}, id);
    if (const auto& end = node(voter).end; listens(voter) && end)
      return net_.post(voter, id, [this, id, end = *end] { hear(id, rendezvous::EndJob{end, true}); });
    if (node(voter).host_down || (listens(voter) && who_answers(voter) == voter)) return;
    net_.post(voter, id, [this, id, voter] { elect(id, rendezvous::NodeDead{voter}); });
  });
}

void Cluster::plan_election(rendezvous::NodeId id) {
  const auto deadline = node(id).election.next_deadline();
  if (!deadline || node(id).election_tick_at == deadline) return;
  node(id).election_tick_at = deadline;
  net_.after(std::max(*deadline - net_.now(), Duration::zero()), [this, id, due = *deadline] {
    Node& self = node(id);
    if (self.election_tick_at == due) self.election_tick_at.reset();
    if (self.election.next_deadline() == due) elect(id, rendezvous::ElectionTick{});
  });
}

void Cluster::take_the_lead(rendezvous::NodeId id, const rendezvous::Lead& won) {
  note(id, "is elected for term " + std::to_string(won.term) + " by " + in_words(won.record.id()));
  ++elections_;
  const int job = job_of(won.record.master_host);
  invariant(terms_.insert({job, won.term}).second, "one coordinator is elected in a term");
  std::set<rendezvous::NodeId>& votes = votes_[{node(id).job, won.term, id}];
  votes.insert(id);
  for (const rendezvous::Electorate& electorate : won.record.electorates())
    invariant(electorate.has_quorum(votes), "who is elected was given the votes of a quorum");
  const Duration fence = options_.broken == Break::no_fence ? Duration::zero() : kLease + kBeyondLease;
  lead(id, rendezvous::Succession{won.term, won.record, won.heard_at + fence, node(id).end}, won.asked_at);
  node(id).calling = node(id).led = won;
  go_to(id, id);
  call(id, won.term, net_.now() + kCallAgainFor);
}

// Calls the record's nodes for a while, and the first place as long as it leads.
void Cluster::call(rendezvous::NodeId id, int term, TimePoint until) {
  Node& self = node(id);
  if (!here(id) || !self.calling || self.calling->term != term) return;
  std::set<rendezvous::NodeId> called;
  for (std::size_t i = 0; i < count_places(); ++i)
    if (node(slots_[i]).at_place) called.insert(slots_[i]);
  if (net_.now() < until)
    for (const rendezvous::RoundNode& other : self.calling->record.nodes) called.insert(other.id);
  called.erase(id);
  for (const rendezvous::NodeId other : called)
    net_.post(id, other, [this, other, term, id] { elect(other, rendezvous::Called{term}, id); });
  net_.after(kCallAgain, [this, id, term, until] { call(id, term, until); });
}

void Cluster::lead(rendezvous::NodeId id, std::optional<rendezvous::Succession> succession, TimePoint asked_at) {
  stop_leading(id, {}, {});
  Node& self = node(id);
  const TimePoint now = net_.now();
  if (!succession) {
    note(id, "begins to coordinate");
    self.office.emplace(Office{rendezvous::Coordinator(policy_of(options_), now, options_.seed, id), ++serials_,
                               ++jobs_, rendezvous::RecordId{}, rendezvous::QuorumContact{}});
  } else {
    const rendezvous::RecordId newest{succession->term, succession->record.number};
    self.office.emplace(Office{rendezvous::Coordinator(policy_of(options_), now, options_.seed, id, *succession),
                               ++serials_, job_of(succession->record.master_host), newest,
                               rendezvous::QuorumContact{}});
    for (const rendezvous::RoundNode& member : succession->record.nodes) {
      self.office->contact.answered(member.id, asked_at);
      if (member.id != id) probe(id, serials_, member.id);
    }
  }
  look_around(id, serials_);
  plan_coordinator_tick(id);
}

void Cluster::stop_leading(rendezvous::NodeId id, const rendezvous::Elsewhere& told,
                           std::optional<rendezvous::NodeId> at) {
  Node& self = node(id);
  self.elsewhere = told;
  self.elsewhere.record = self.election.newest();
  self.elsewhere_at = at;
  if (!self.office) return;
  const Office office = std::move(*self.office);
  self.office.reset();
  for (const auto& [peer, one] : office.peers)
    net_.send(one.link, peer, [this, peer = peer, link = one.link, told = self.elsewhere, at] {
      if (here(peer) && node(peer).link == link) told_elsewhere(peer, told, at, false);
    });
}

void Cluster::answer_elsewhere(rendezvous::NodeId at, rendezvous::NodeId id, Network::LinkId link) {
  rendezvous::Elsewhere told = node(at).elsewhere;
  told.record = node(at).election.newest();
  net_.send(link, id, [this, at, id, link, told, where = node(at).elsewhere_at] {
    const auto before = node(id).coordinator;
    if (here(id) && node(id).link == link)
      told_elsewhere(id, told, where, before && *before != at && who_answers(*before) == at);
  });
}

void Cluster::hello(rendezvous::NodeId at, rendezvous::NodeId id, Network::LinkId link,
                    const rendezvous::RecordId& record) {
  Node& host = node(at);
  if (!listens(at)) return;
  if (const rendezvous::NodeId before = node(id).instead_of; host.office && before != 0) {
    coordinate(at, rendezvous::JobAbandoned{before});
    if (host.office && host.office->peers.contains(before)) lose(at, before, "it gave up its part", false);
  }
  if (host.office && record > host.office->newest) {
    const bool may_wait = host.office->newest == rendezvous::RecordId{} && options_.broken != Break::no_patience;
    if (!may_wait) stop_leading(at, {record.term, {}}, {});
    if (may_wait) coordinate(at, rendezvous::JobElsewhere{id, record.round});
    if (options_.broken == Break::no_patience) host.first_place = rendezvous::FirstPlace(1);
    return answer_elsewhere(at, id, link);
  }
  if (!host.office && host.end && options_.broken != Break::silent_end)
    return net_.send(link, id, [this, id, link, end = *host.end] {
      if (here(id) && node(id).link == link) hear(id, rendezvous::EndJob{end, true});
    });
  if (!host.office) return answer_elsewhere(at, id, link);
  Office& office = *host.office;
  if (office.peers.contains(id)) lose(at, id, "it connected anew", false);
  const TimePoint now = net_.now();
  office.peers[id] = {link, now, {{0, now}}};
  for (const auto& other : nodes_)  // it may have taken a dead one's port
    if (other->id != id && other->at_place && !listens(other->id) && who_answers(other->id) == id)
      coordinate(at, rendezvous::NodeGone{other->id});
  if (!host.office) return;
  office.contact.answered(id, now);
  const rendezvous::Welcome welcome{"", kLease, office.coordinator.term(), quorum_age(office, at)};
  net_.send(link, id, [this, id, link, at, welcome] {
    if (!here(id) || node(id).link != link) return;
    node(id).coordinator = at;
    node(id).turn = 0;
    welcomed(id, welcome);
  });
}

void Cluster::take(rendezvous::NodeId at, rendezvous::NodeId id, const rendezvous::FromAgent& message) {
  Node& host = node(at);
  if (!host.office || !host.office->peers.contains(id)) return;
  Office& office = *host.office;
  Peer& peer = office.peers.at(id);
  peer.heard = net_.now();
  std::visit(overloaded{
                 [](const rendezvous::Hello&) {},
                 [](const rendezvous::FailureWords&) {},
                 [](const rendezvous::VoteRequest&) {},
                 [](const rendezvous::CoordinatorCall&) {},
                 [&](const rendezvous::Heartbeat& m) {
                   if (const auto said = peer.answers.find(m.answered); said != peer.answers.end())
                     office.contact.answered(id, said->second);
                   peer.answers[m.number] = net_.now();
                   if (peer.answers.size() > 8) peer.answers.erase(peer.answers.begin());
                   to_node(at, id, rendezvous::HeartbeatAnswer{m.number, quorum_age(office, at)});
                 },
                 [&](const rendezvous::NodeReady& m) {
                   coordinate(at, m);
                   tell_spare(at, id);
                 },
                 [&](const auto& m) { coordinate(at, m); },
             },
             message);
}

void Cluster::tell_spare(rendezvous::NodeId at, rendezvous::NodeId id) {
  const auto& office = node(at).office;
  if (office && office->record && !office->record->find(id)) to_node(at, id, rendezvous::KeepRecord{*office->record});
}

void Cluster::lose(rendezvous::NodeId at, rendezvous::NodeId id, const std::string& how, bool closed) {
  Office& office = *node(at).office;
  const Peer peer = office.peers.extract(id).mapped();
  net_.close(peer.link);
  if (!closed && here(id) && node(id).link == peer.link && net_.reaches(at, id))
    net_.after(5ms, [this, id, link = peer.link] {
      if (here(id) && node(id).link == link) try_again(id, kPause, false);
    });
  const int serial = office.serial;
  const bool fence = options_.broken != Break::no_fence;
  coordinate(at, rendezvous::NodeLost{id, fence ? peer.heard + kLease + kBeyondLease : net_.now(), how});
  probe(at, serial, id);
}

// Repeats until it is refused, or the node is back.
void Cluster::probe(rendezvous::NodeId at, int serial, rendezvous::NodeId id) {
  net_.after(net_.milliseconds(100), [this, at, serial, id] {
    Node& host = node(at);
    if (!listens(at) || !host.office || host.office->serial != serial) return;
    if (!host.office->coordinator.awaits(id)) return;
    if (host.office->peers.contains(id)) return;
    const Node& other = node(id);
    if (other.running.empty() && !listens(id) && !other.host_down && who_answers(id) == id && net_.reaches(at, id))
      return coordinate(at, rendezvous::NodeGone{id});
    net_.after(1s, [this, at, serial, id] { probe(at, serial, id); });
  });
}

void Cluster::look_around(rendezvous::NodeId at, int serial) {
  Node& host = node(at);
  if (!listens(at) || !host.office || host.office->serial != serial) return;
  if (!host.office->coordinator.is_over() && quorum_age(*host.office, at) > kLease) {
    note(at, "stops coordinating: too many nodes are out of its reach");
    return stop_leading(at, {host.office->coordinator.term(), {}}, {});
  }
  std::vector<rendezvous::NodeId> silent;
  for (const auto& [id, peer] : host.office->peers)
    if (net_.now() - peer.heard >= kLease) silent.push_back(id);
  for (const rendezvous::NodeId id : silent)
    if (host.office && host.office->serial == serial) lose(at, id, "nothing was heard of it for 5 s", false);
  net_.after(kLook, [this, at, serial] { look_around(at, serial); });
}

Duration Cluster::quorum_age(Office& office, rendezvous::NodeId self) {
  const TimePoint now = net_.now();
  if (options_.broken == Break::no_quorum) return {};
  if (now >= office.contact_known_at + kContactEvery) {
    office.contact_at = office.contact.latest(office.coordinator.electorates(), self, now);
    office.contact_known_at = now;
  }
  return now - std::max(office.contact_at, now - 2 * kLease);
}

void Cluster::coordinate(rendezvous::NodeId at, const rendezvous::Message& message) {
  Node& host = node(at);
  if (!host.office) return;
  for (const rendezvous::Order& order : host.office->coordinator.on(message, net_.now())) obey(at, order);
  plan_coordinator_tick(at);
}

void Cluster::obey(rendezvous::NodeId at, const rendezvous::Order& order) {
  Office& office = *node(at).office;
  const auto to_round = [&](const rendezvous::ToAgent& message) {
    for (const rendezvous::NodeId id : office.round) to_node(at, id, message);
  };
  std::visit(overloaded{
                 [&](const rendezvous::FormRound& o) { form(at, o.round); },
                 [&](const rendezvous::StartRound& o) {
                   note(in_words(office.newest) + " starts");
                   to_round(o);
                 },
                 [&](const rendezvous::EndRound& o) {
                   note(in_words(office.newest) + " ends: " + o.reason);
                   to_round(o);
                 },
                 [&](const rendezvous::EndJob& o) {
                   note("the job ends: " + o.outcome.reason);
                   const bool first = !ended_by_;
                   if (first) {
                     ended_by_ = office.serial;
                     ended_at_ = net_.now();
                     cut_at_end_ = cuts_ > 0;
                   }
                   if (o.outcome.verdict == rendezvous::Verdict::too_few_nodes ||
                       o.outcome.verdict == rendezvous::Verdict::too_few_left)
                     invariant(!enough_are_there(), "nobody times out waiting for nodes that are there");
                   if (first) {
                     end_ = o.outcome;
                     for (const rendezvous::NodeId id : office.round)
                       node(id).in_last_round = office.peers.contains(id);
                   }
                   for (const auto& [id, peer] : office.peers) to_node(at, id, o);
                   if (first && options_.last_breath > 0 && net_.chance(options_.last_breath))
                     net_.after(net_.milliseconds(20), [this, at] {
                       if (node(at).alive) kill_agent(at);
                     });
                 },
                 [&](const rendezvous::AllTold& o) {
                   for (const auto& [id, peer] : office.peers) to_node(at, id, o);
                 },
                 [&](const rendezvous::Recall& o) {
                   to_node(at, o.node, rendezvous::EndRound{o.round, false, o.reason});
                 },
                 [&](const rendezvous::Dismiss& o) {
                   note(o.node, "is dismissed: " + o.outcome.reason);
                   to_node(at, o.node, rendezvous::EndJob{o.outcome, o.for_all});
                 },
                 [&](const rendezvous::HandOver& o) {
                   note(at, "hands over to node" + std::to_string(o.successor));
                   stop_leading(at, {office.coordinator.term(), {}}, {});
                 },
             },
             order);
}

void Cluster::form(rendezvous::NodeId at, const rendezvous::Round& decided) {
  Office& office = *node(at).office;
  rendezvous::Round round = decided;
  round.master_host = store_host(round.nodes.front().id, office.job);
  const JobRound key{office.job, round.id()};
  office.newest = round.id();
  note(in_words(round.id()) + " forms of " + std::to_string(round.nodes.size()) + " nodes, at node" +
       std::to_string(at));
  invariant(round.ledger.counts.spent() <= options_.max_restarts, "never more restarts than allowed");
  const int nodes = static_cast<int>(round.nodes.size());
  invariant(nodes >= options_.nodes_min && nodes <= options_.nodes_max, "no round has too few nodes or too many");
  std::set<rendezvous::NodeId> seen;
  int rank = 0;
  for (const rendezvous::RoundNode& member : round.nodes) {
    invariant(seen.insert(member.id).second && member.first_rank == rank, "every rank is held once");
    rank += member.workers;
  }
  charged_ = round.ledger.counts;
  for (const rendezvous::RoundNode& member : round.nodes) to_confirm_[key].insert(member.id);
  office.round.clear();
  for (const rendezvous::RoundNode& member : round.nodes) office.round.push_back(member.id);
  if (net_.chance(options_.failure)) failing_[key] = round.nodes[net_.draw() % round.nodes.size()].id;
  office.record = round;
  for (const auto& [id, peer] : office.peers) tell_spare(at, id);
  const std::vector<rendezvous::Seat> all = rendezvous::seats(round);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i < rendezvous::kStandbys) to_node(at, round.nodes[i].id, rendezvous::KeepRecord{round});
    to_node(at, round.nodes[i].id, rendezvous::TakeSeat{all[i], round.term});
    if (options_.broken == Break::no_confirmation) to_node(at, round.nodes[i].id, rendezvous::StartRound{round.number});
  }
}

void Cluster::to_node(rendezvous::NodeId at, rendezvous::NodeId id, const rendezvous::ToAgent& message) {
  const Office& office = *node(at).office;
  const auto found = office.peers.find(id);
  if (found == office.peers.end()) return;
  const auto* end = std::get_if<rendezvous::EndJob>(&message);
  const bool first_end = end && end->for_all && ended_by_ == office.serial;
  net_.send(found->second.link, id, [this, id, link = found->second.link, message, first_end] {
    if (node(id).link != link) return;
    if (first_end && here(id)) told_first_.insert(id);
    hear(id, message);
  });
}

void Cluster::plan_coordinator_tick(rendezvous::NodeId at) {
  auto& office = node(at).office;
  if (!office) return;
  const auto deadline = office->coordinator.next_deadline();
  if (!deadline || office->tick_at == deadline) return;
  office->tick_at = deadline;
  net_.after(std::max(*deadline - net_.now(), Duration::zero()), [this, at, due = *deadline, serial = office->serial] {
    auto& then = node(at).office;
    if (!then || then->serial != serial) return;
    if (then->tick_at == due) then->tick_at.reset();
    if (then->coordinator.next_deadline() == due) coordinate(at, rendezvous::CoordinatorTick{});
  });
}

void Cluster::happen(rendezvous::NodeId id, const agent::Event& event) {
  Node& self = node(id);
  if (!here(id)) return;
  self.events.push_back(event);
  if (std::exchange(self.handling, true)) return;
  for (; !self.events.empty(); self.events.pop_front())
    for (const agent::Action& action : self.supervisor.on(self.events.front(), net_.now())) carry_out(id, action);
  self.handling = false;
  plan_tick(id);
}

void Cluster::carry_out(rendezvous::NodeId id, const agent::Action& action) {
  Node& self = node(id);
  invariant(!self.finished, "nothing is done after Finish");
  std::visit(overloaded{
                 [&](const agent::ConfirmRound& a) {
                   to_confirm_[{self.job, self.newest}].erase(id);
                   to_coordinator(id, rendezvous::NodeConfirmed{id, a.round});
                 },
                 [&](const agent::StartWorkers& a) { start(id, a.seat); },
                 [&](const agent::SignalWorkers& a) { signal_workers(id, a.signal); },
                 [&](const agent::SweepLeftovers& a) { sweep(id, a.round); },
                 [&](const agent::ReportRunning& a) {
                   to_coordinator(id, rendezvous::NodeRunning{id, a.round});
                 },
                 [&](const agent::ReportDone& a) {
                   to_coordinator(id, rendezvous::NodeDone{id, a.round});
                 },
                 [&](const agent::ReportFailure& a) {
                   note(id, "a worker fails");
                   to_coordinator(id, rendezvous::WorkerFailed{{a.round, id, a.local_rank, 0, a.status}});
                 },
                 [&](const agent::ReportInterrupted&) { tell_of_signal(id); },
                 [&](const agent::Rejoin&) {
                   to_coordinator(id, rendezvous::NodeReady{id, self.offer});
                 },
                 [&](const agent::Finish& a) { finish(id, a.outcome); },
                 [](const auto&) {},
             },
             action);
}

bool Cluster::may_leave(rendezvous::NodeId id) {
  const Node& self = node(id);
  return !self.end || self.all_told || net_.now() >= self.leaves_at || options_.broken == Break::silent_end;
}

void Cluster::await_no_longer(rendezvous::NodeId id) {
  node(id).leaves_at = std::min(node(id).leaves_at, net_.now() + kLease + kBeyondLease);
}

void Cluster::finish(rendezvous::NodeId id, const rendezvous::Outcome& outcome) {
  Node& self = node(id);
  invariant(self.running.empty(), "an agent that finishes has no workers");
  note(id, "finishes: " + outcome.reason);
  hold_progress(id, outcome);
  self.finished_with = outcome;
  leave_when_told(id, net_.now() + kGoodbye);
}

// It stays until all know of the end; a coordinator stays until it has told them.
void Cluster::leave_when_told(rendezvous::NodeId id, TimePoint at_last) {
  Node& self = node(id);
  if (!here(id)) return;
  if (!may_leave(id) && net_.now() < at_last)
    return net_.after(50ms, [this, id, at_last] { leave_when_told(id, at_last); });
  hang_up(id);
  self.finished = true;
  if (self.office && !self.office->coordinator.is_over()) disturbed();  // the coordinator is lost with it
  whole_since_.reset();
  const rendezvous::Verdict verdict = self.finished_with->verdict;
  if (verdict == rendezvous::Verdict::out_of_reach || verdict == rendezvous::Verdict::too_few_left)
    start_again(self.slot);
  exit_when_left(id, at_last);
}

void Cluster::exit_when_left(rendezvous::NodeId id, TimePoint at_last) {
  Node& self = node(id);
  const bool left = !self.office || (self.office->coordinator.all_told() && self.office->peers.empty());
  if (!left && net_.now() < at_last) return net_.after(100ms, [this, id, at_last] { exit_when_left(id, at_last); });
  self.exited = true;
  vanish(id);
}

void Cluster::signal_workers(rendezvous::NodeId id, int signal) {
  const Node& self = node(id);
  for (const int rank : self.running) {
    if (signal != SIGKILL && self.deaf.contains(rank)) continue;
    net_.after(signal == SIGKILL ? net_.milliseconds(20) : net_.milliseconds(500),
               [this, id, round = self.round, rank, signal] { end_worker(id, round, rank, {.signal = signal}); });
  }
}

void Cluster::start(rendezvous::NodeId id, const rendezvous::Seat& seat) {
  Node& self = node(id);
  invariant(self.running.empty(), "no local rank is started twice");
  self.round = {self.job, self.newest};
  invariant(to_confirm_[self.round].empty(), "workers start once every agent has confirmed the round");
  hold_invariants(id, self.round);
  self.deaf.clear();
  for (int rank = 0; rank < seat.workers; ++rank) {
    self.running.insert(rank);
    count_running(self.round, 1);
    if (net_.chance(options_.deaf)) self.deaf.insert(rank);
    happen(id, agent::WorkerStarted{seat.round, rank});
  }
  meet(id, seat);
}

void Cluster::count_running(const JobRound& round, int change) {
  if ((running_[round] += change) == 0) running_.erase(round);
}

void Cluster::end_worker(rendezvous::NodeId id, const JobRound& round, int local_rank,
                         const rendezvous::ExitStatus& status) {
  Node& self = node(id);
  if (self.round != round || !self.running.erase(local_rank)) return;  // it has ended already
  count_running(round, -1);
  if (self.running.empty()) leave_store(id);
  happen(id, agent::WorkerExited{round.id.round, local_rank, status});
}

// Processes that a driver blocks end late, or are given up.
void Cluster::sweep(rendezvous::NodeId id, int round) {
  invariant(node(id).running.empty(), "a round is swept when its workers are gone");
  if (!net_.chance(options_.slow_sweep)) return happen(id, agent::Swept{round});
  note(id, "the kernel holds what is left of its workers");
  net_.after(net_.milliseconds(12'000), [this, id, round] { happen(id, agent::Swept{round}); });
}

void Cluster::plan_tick(rendezvous::NodeId id) {
  if (const auto deadline = node(id).supervisor.next_deadline())
    net_.after(std::max(*deadline - net_.now(), Duration::zero()), [this, id, due = *deadline] {
      if (node(id).supervisor.next_deadline() == due) happen(id, agent::Tick{});
    });
}

// Ranks are decided once per round, so no rank is held twice while all running workers belong to one round.
void Cluster::hold_invariants(rendezvous::NodeId id, const JobRound& starting) {
  for (const auto& [round, workers] : running_)
    if (round != starting)
      throw std::logic_error("broken: no worker of another round runs when one starts: " + in_words(starting.id) +
                             " on node" + std::to_string(id) + ", " + in_words(round.id) + " elsewhere");
  if (!started_.insert(starting).second) return;
  invariant(starting.id.round > last_started_[starting.job], "round numbers grow");
  last_started_[starting.job] = starting.id.round;
}

}  // namespace ddprun::test
