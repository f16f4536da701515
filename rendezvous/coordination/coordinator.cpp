#include "rendezvous/coordination/coordinator.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kNoWish = std::numeric_limits<int>::max();

int wish(const NodeOffer& offer) { return offer.wished_rank.value_or(kNoWish); }

// For people: "gpu-7 (10.0.0.7)".
std::string name_of(const std::string& name, const std::string& host) {
  if (host.empty()) return name;
  if (name.empty() || name == host) return host;
  return name + " (" + host + ")";
}

std::string name_of(const NodeOffer& offer) { return name_of(offer.name, offer.host); }

Outcome interrupted(int signal, std::string reason = "interrupted") {
  return {Verdict::interrupted, signal, std::move(reason), std::nullopt};
}

std::vector<Order> operator+(std::vector<Order> first, std::vector<Order> then) {
  for (Order& order : then) first.push_back(std::move(order));
  return first;
}

}  // namespace

Coordinator::Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed,
                         std::optional<NodeId> self)
    : policy_(policy), ledger_(policy.restarts, jitter_seed), self_(self), now_(now), state_(Gathering{now, now}) {}

Coordinator::Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed, NodeId self,
                         const Succession& succession)
    : policy_(policy),
      ledger_(policy.restarts, jitter_seed, succession.record.ledger),
      self_(self),
      term_(succession.term),
      now_(now),
      rounds_(succession.record.number),
      electorates_(succession.record.electorates()),
      taken_over_("another node coordinates the job"),
      state_(Gathering{now, now}) {
  const Round& record = succession.record;
  for (const RoundNode& node : record.nodes) {
    last_by_rank_.push_back(node.id);
    lose(node.id, {succession.workers_until, name_of(node.name, node.control.host)});
  }
  if (succession.over) state_ = Over{*succession.over, true};
  if (succession.over || record.coordinator == self) return;  // handed over
  ledger_.charge_lost_node();
  if (const RoundNode* before = record.find(record.coordinator))
    taken_over_ = name_of(before->name, before->control.host) + " was lost, which coordinated the job";
}

std::vector<Order> Coordinator::on(const Message& message, TimePoint now) {
  now_ = now;
  if (std::holds_alternative<HandedOver>(state_)) return {};
  forget_lost(now);
  if (auto* over = std::get_if<Over>(&state_)) return after_end(*over, message);
  std::erase_if(look_elsewhere_, [&](const auto& entry) { return entry.second <= now; });
  return std::visit([&](const auto& m) { return handle(m, now); }, message);
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  if (is_over() && !lost_.empty()) return lost_until_;
  const auto* state = std::get_if<Gathering>(&state_);
  if (!state) return {};
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint when) {
    if (when > now_ && (!next || when < *next)) next = when;  // past deadlines wait for nodes
  };
  consider(state->not_before);
  consider(state->since + policy_.join_timeout);
  if (state->last_call_over) consider(*state->last_call_over);
  if (!lost_.empty()) consider(lost_until_);
  for (const auto& [node, until] : look_elsewhere_) consider(until);
  return next;
}

std::vector<Electorate> Coordinator::electorates() const {
  std::vector<Electorate> out = electorates_;
  for (Electorate& one : out) std::erase_if(one.nodes, [&](NodeId node) { return gone_.contains(node); });
  const auto* over = std::get_if<Over>(&state_);
  std::erase_if(out, [&](const Electorate& one) { return one.nodes.empty() || (over && one.has_quorum(over->told)); });
  return out;
}

std::optional<Attendance> Coordinator::attendance() const {
  if (!std::holds_alternative<Gathering>(state_)) return {};
  Attendance out{.nodes = ready_};
  out.nodes_wanted = out.nodes < policy_.nodes_min ? policy_.nodes_min : policy_.nodes_max;
  const auto await = [&](const auto& name) {
    if (out.awaited.size() < kAwaitedNamesMax)
      out.awaited.push_back(name());
    else
      ++out.awaited_more;
  };
  for (const auto& [node, member] : members_) {
    if (member.ready)
      out.workers += member.offer.workers;
    else
      await([&offer = member.offer] { return name_of(offer); });
  }
  for (const auto& [node, lost] : lost_) await([&lost = lost] { return lost.name; });
  const bool knows_ranks = policy_.fixed_ranks && lost_.empty();  // a lost node may have one of them
  for (int rank = 0; knows_ranks && rank < policy_.nodes_max; ++rank)
    if (!rank_held_.contains(rank)) await([&] { return "node " + std::to_string(rank); });
  return out;
}

Coordinator::Orders Coordinator::handle(const NodeReady& message, TimePoint now) {
  if (!members_.contains(message.node)) {
    if (auto refused = refusal(message.offer)) return {Dismiss{message.node, std::move(*refused)}};
    add(message.node, {message.offer, false, ++arrivals_});
  }
  Member& member = members_.at(message.node);
  member.offer = message.offer;
  rounds_seen_ = std::max(rounds_seen_, message.offer.rounds);
  set_ready(member, true);
  look_elsewhere_.erase(message.node);
  lost_.erase(message.node);
  gone_.erase(message.node);
  if (member.farewell) return dismiss(message.node, now);
  const auto* running = std::get_if<Active>(&state_);
  if (!running) return go_on(now);
  if (active_with(message.node))
    return regroup({0, false, name_of(member.offer) + " came back without its workers"}, now, now);
  if (static_cast<int>(running->round.nodes.size()) >= policy_.nodes_max) return {};  // a spare
  ledger_.charge_resize();
  return regroup({0, true, name_of(member.offer) + " joins"}, now, now);
}

Coordinator::Orders Coordinator::handle(const NodeConfirmed& message, TimePoint) {
  Active* state = active(message.round, message.node);
  if (!state || !state->confirmed.insert(message.node).second) return {};
  if (state->confirmed.size() < state->round.nodes.size()) return {};
  electorates_ = {electorates_.back()};
  if (!self_ || state->round.find(*self_)) return {StartRound{message.round}};
  const NodeId successor = state->round.coordinator;
  state_ = HandedOver{};
  return {HandOver{successor}};
}

Coordinator::Orders Coordinator::handle(const NodeRunning& message, TimePoint now) {
  Active* state = active(message.round, message.node);
  if (!state) return {};
  state->started.insert(message.node);
  if (state->started.size() == state->round.nodes.size() && !state->all_started_at) state->all_started_at = now;
  return {};
}

Coordinator::Orders Coordinator::handle(const NodeDone& message, TimePoint) {
  Active* state = active(message.round, message.node);
  if (!state) return {};
  state->done.insert(message.node);
  if (state->done.size() < state->round.nodes.size()) return {};
  return end_job({Verdict::success, 0, "all workers ended well", std::nullopt});
}

Coordinator::Orders Coordinator::handle(const WorkerFailed& message, TimePoint now) {
  const Failure& failure = message.failure;
  const Active* state = active(failure.round, failure.node);
  if (!state) return {};
  const bool lived = state->all_started_at && now - *state->all_started_at >= policy_.restarts.progress_after;
  const Ruling ruling =
      ledger_.charge_failure(failure.status, message.progressed.value_or(lived), now, failure.last_line);
  if (!ruling.restart_at)
    return end_job({ruling.final ? Verdict::worker_final : Verdict::worker_failed, 0, ruling.reason, failure});
  return regroup({0, false, ruling.reason, failure}, now, *ruling.restart_at);
}

// The others continue if enough of them stay.
Coordinator::Orders Coordinator::handle(const NodeLeaves& message, TimePoint now) {
  const auto found = members_.find(message.node);
  if (found == members_.end()) return {};
  Member& member = found->second;
  if (member.farewell) return {};
  member.farewell = interrupted(message.signal, "this node left");
  if (staying() < policy_.nodes_min)
    return end_job(interrupted(message.signal, "interrupted, as " + name_of(member.offer) + " has to leave"));
  if (member.ready) return dismiss(message.node, now);
  if (!active_with(message.node)) return {};  // it is stopping its workers
  ledger_.charge_preemption();
  return regroup({0, true, name_of(member.offer) + " leaves"}, now, now);
}

Coordinator::Orders Coordinator::handle(const JobInterrupted& message, TimePoint) {
  const auto found = members_.find(message.node);
  if (found == members_.end()) return end_job(interrupted(message.signal));
  return end_job(interrupted(message.signal, "interrupted on " + name_of(found->second.offer)));
}

// While it was lost, its rank may have gone to another node.
Coordinator::Orders Coordinator::handle(const NodeBack& message, TimePoint now) {
  if (!members_.contains(message.node)) {
    auto refused = refusal(message.offer);
    add(message.node, {message.offer, false, ++arrivals_, std::move(refused)});
  }
  Member& member = members_.at(message.node);
  member.offer = message.offer;
  set_ready(member, false);
  look_elsewhere_.erase(message.node);
  lost_.erase(message.node);
  gone_.erase(message.node);
  if (active(message.round, message.node)) return {};
  return Orders{Recall{message.node, message.round, taken_over_}} + go_on(now);
}

Coordinator::Orders Coordinator::handle(const NodeLost& message, TimePoint now) {
  const auto found = members_.find(message.node);
  if (found == members_.end()) return {};
  const Member member = remove(found);
  const std::string name = name_of(member.offer);
  if (!member.ready) lose(message.node, {message.workers_until, name});
  const Active* state = active_with(message.node);
  if (!state) return go_on(now);
  // Its workers have ended well; but without group rank 0's node the others have lost their store.
  if (state->done.contains(message.node) && state->round.nodes.front().id != message.node) return {};
  ledger_.charge_lost_node();
  return regroup({0, false, name + " was lost: " + message.how}, now, now);
}

Coordinator::Orders Coordinator::handle(const NodeGone& message, TimePoint now) {
  if (members_.contains(message.node)) return {};  // it has come back since
  lost_.erase(message.node);
  gone_.insert(message.node);
  return go_on(now);
}

// A node that finds its coordinator there stops asking, and that coordinator calls ours.
Coordinator::Orders Coordinator::handle(const JobElsewhere& message, TimePoint now) {
  look_elsewhere_[message.node] = now + kAsksAgainWithin;
  rounds_seen_ = std::max(rounds_seen_, message.round);
  return {};
}

Coordinator::Orders Coordinator::handle(const JobAbandoned& message, TimePoint now) {
  look_elsewhere_.erase(message.node);
  return handle(NodeLost{message.node, now, "it gave up its part"}, now) + handle(NodeGone{message.node}, now);
}

Coordinator::Orders Coordinator::handle(const NodeTold&, TimePoint) { return {}; }

// Other nodes may have ended with it.
Coordinator::Orders Coordinator::handle(const JobWasOver& message, TimePoint) {
  lost_.erase(message.node);
  Orders orders = end_job(message.outcome);
  std::get<Over>(state_).inherited = true;
  return orders;
}

Coordinator::Orders Coordinator::handle(const CoordinatorTick&, TimePoint now) { return go_on(now); }

Coordinator::Orders Coordinator::after_end(Over& over, const Message& message) {
  bool told = false;
  Orders orders = std::visit(overloaded{
                                 [&](const NodeReady& m) { return greet(over, m); },
                                 [&](const NodeBack& m) { return greet(over, m); },
                                 [&](const NodeTold& m) { return note_told(over, m.node), told = true, Orders{}; },
                                 [&](const JobWasOver& m) { return note_told(over, m.node), told = true, Orders{}; },
                                 [&](const NodeLost& m) { return note_lost(over, m), Orders{}; },
                                 [&](const NodeGone& m) { return lost_.erase(m.node), gone_.insert(m.node), Orders{}; },
                                 [&](const JobAbandoned& m) { return note_told(over, m.node), Orders{}; },
                                 [](const auto&) { return Orders{}; },
                             },
                             message);
  // Sent again for a node that comes late.
  const bool all = over.untold.empty() && (lost_.empty() || !over.inherited);
  if (all && (told || !over.announced)) {
    over.announced = true;
    orders.push_back(AllTold{});
  }
  return orders;
}

Coordinator::Orders Coordinator::greet(Over& over, const NodeReady& message) {
  const bool of_the_job = members_.contains(message.node) || lost_.erase(message.node) != 0;
  if (of_the_job) over.untold.insert(message.node);
  Outcome outcome = over.outcome;
  outcome.late = !of_the_job;
  if (outcome.late) outcome.reason = "it had ended before this node came: " + outcome.reason;
  return {Dismiss{message.node, std::move(outcome), of_the_job}};
}

Coordinator::Orders Coordinator::greet(Over& over, const NodeBack& message) {
  lost_.erase(message.node);
  over.untold.insert(message.node);
  return {Dismiss{message.node, over.outcome, true}};
}

void Coordinator::note_told(Over& over, NodeId node) {
  lost_.erase(node);
  over.untold.erase(node);
  over.told.insert(node);
}

void Coordinator::note_lost(Over& over, const NodeLost& message) {
  if (over.untold.erase(message.node)) lose(message.node, {message.workers_until, ""});
}

bool Coordinator::all_told() const {
  const auto* over = std::get_if<Over>(&state_);
  return over && over->untold.empty() && lost_.empty();
}

Coordinator::Active* Coordinator::active(int round, NodeId node) {
  Active* state = active_with(node);
  return state && state->round.number == round ? state : nullptr;
}

Coordinator::Active* Coordinator::active_with(NodeId node) {
  auto* state = std::get_if<Active>(&state_);
  return state && state->round.find(node) ? state : nullptr;
}

std::optional<Outcome> Coordinator::refusal(const NodeOffer& newcomer) const {
  const auto refused = [](std::string why) { return Outcome{Verdict::refused, 0, std::move(why), std::nullopt}; };
  if (!policy_.fixed_ranks) return {};
  const int rank = newcomer.wished_rank.value_or(0);
  if (rank < 0 || rank >= policy_.nodes_max)
    return refused("node rank " + std::to_string(rank) + " of " + name_of(newcomer) + " is not one of the job's " +
                   std::to_string(policy_.nodes_max) + " (0 to " + std::to_string(policy_.nodes_max - 1) + ")");
  if (const auto held = rank_held_.find(rank); held != rank_held_.end())
    return refused("node rank " + std::to_string(rank) + " is wanted by " + name_of(newcomer) + " and held by " +
                   name_of(members_.at(held->second).offer) + "; give each node a --node-rank of its own");
  return {};
}

void Coordinator::add(NodeId node, Member member) {
  if (policy_.fixed_ranks) rank_held_.emplace(member.offer.wished_rank.value_or(0), node);
  members_.emplace(node, std::move(member));
}

Coordinator::Member Coordinator::remove(std::map<NodeId, Member>::iterator member) {
  if (policy_.fixed_ranks) std::erase_if(rank_held_, [&](const auto& held) { return held.second == member->first; });
  ready_ -= member->second.ready;
  return std::move(members_.extract(member).mapped());
}

void Coordinator::set_ready(Member& member, bool ready) { ready_ += ready - std::exchange(member.ready, ready); }

void Coordinator::lose(NodeId node, Lost lost) {
  lost_until_ = lost_.empty() ? lost.workers_until : std::min(lost_until_, lost.workers_until);
  lost_[node] = std::move(lost);
}

int Coordinator::staying() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(), [](const auto& entry) { return !entry.second.farewell; }));
}

Coordinator::Orders Coordinator::regroup(EndRound end, TimePoint now, TimePoint not_before) {
  end.round = std::get<Active>(state_).round.number;
  state_ = Gathering{now, not_before};
  return Orders{std::move(end)} + go_on(now);
}

Coordinator::Orders Coordinator::go_on(TimePoint now) {
  auto* state = std::get_if<Gathering>(&state_);
  if (!state) return {};
  forget_lost(now);
  call_last(*state, now);
  if (can_form(*state, now)) return form();
  if (now < state->since + policy_.join_timeout || staying() >= policy_.nodes_min) return {};
  const bool had_enough = rounds_ > 0 || rounds_seen_ > 0;
  return end_job({had_enough ? Verdict::too_few_left : Verdict::too_few_nodes, 0,
                  "only " + std::to_string(ready_) + " of " + std::to_string(policy_.nodes_min) +
                      " nodes were there in time (--rdzv-conf join_timeout=" +
                      std::to_string(std::chrono::duration_cast<std::chrono::seconds>(policy_.join_timeout).count()) +
                      ")",
                  std::nullopt});
}

// Searches only when the workers of one of them are dead: a thousand nodes come back one after the other.
void Coordinator::forget_lost(TimePoint now) {
  if (lost_.empty() || now < lost_until_) return;
  std::erase_if(lost_, [&](const auto& entry) { return entry.second.workers_until <= now; });
  lost_until_ = TimePoint::max();
  for (const auto& [node, lost] : lost_) lost_until_ = std::min(lost_until_, lost.workers_until);
}

bool Coordinator::can_form(const Gathering& state, TimePoint now) const {
  if (ready_ < static_cast<int>(members_.size()) || !lost_.empty() || now < state.not_before) return false;
  if (rounds_ == 0 && !look_elsewhere_.empty()) return false;
  const bool nobody_else = rounds_ > 0 || (state.last_call_over && now >= *state.last_call_over);
  const bool enough = ready_ >= policy_.nodes_max || (ready_ >= policy_.nodes_min && nobody_else);
  return enough && has_quorum();  // last, as it checks every node
}

bool Coordinator::has_quorum() const {
  std::set<NodeId> present;
  for (const auto& [id, member] : members_) present.insert(id);
  const std::vector<Electorate> all = electorates();
  return std::all_of(all.begin(), all.end(), [&](const Electorate& one) { return one.has_quorum(present); });
}

void Coordinator::call_last(Gathering& state, TimePoint now) const {
  if (ready_ < policy_.nodes_min)
    state.last_call_over.reset();
  else if (!state.last_call_over)
    state.last_call_over = now + policy_.last_call;
}

Coordinator::Orders Coordinator::form() {
  rounds_ = std::max(rounds_, rounds_seen_) + 1;
  Round round{.number = rounds_, .ledger = ledger_.record(), .term = term_, .before = electorates()};
  last_by_rank_ = by_rank();
  int first_rank = 0;
  for (const NodeId id : last_by_rank_) {
    Member& member = members_.at(id);
    set_ready(member, false);
    const NodeOffer& offer = member.offer;
    round.nodes.push_back({id, offer.workers, first_rank, offer.role, offer.name, offer.control});
    first_rank += member.offer.workers;
  }
  const NodeOffer& first = members_.at(last_by_rank_.front()).offer;
  round.master_host = first.host;
  round.master_port = first.port;
  round.coordinator = self_ && round.find(*self_) ? *self_ : last_by_rank_.front();
  electorates_ = round.before;
  electorates_.push_back({round.coordinator, last_by_rank_});
  state_ = Active{round};
  return {FormRound{std::move(round)}};
}

// Survivors keep their order, and the first one stays first. Newcomers come after them, by wished rank and arrival, but
// before a survivor that wishes a higher rank than they do.
std::vector<NodeId> Coordinator::by_rank() const {
  struct Place {
    NodeId id;
    int wish, arrival;
  };
  std::vector<Place> order, newcomers;
  std::set<NodeId> survivors;
  for (const NodeId id : last_by_rank_) {
    const auto found = members_.find(id);
    if (found == members_.end() || !found->second.ready) continue;
    order.push_back({id, wish(found->second.offer), 0});
    survivors.insert(id);
  }
  for (const auto& [id, member] : members_)
    if (member.ready && !survivors.contains(id)) newcomers.push_back({id, wish(member.offer), member.arrival});
  std::sort(newcomers.begin(), newcomers.end(),
            [](const Place& a, const Place& b) { return std::pair(a.wish, a.arrival) < std::pair(b.wish, b.arrival); });
  const std::size_t room =
      static_cast<std::size_t>(policy_.nodes_max) - std::min<std::size_t>(order.size(), policy_.nodes_max);
  if (newcomers.size() > room) newcomers.resize(room);
  const bool head_stays = !policy_.fixed_ranks && !order.empty();
  // Newcomers are sorted by wish: once no node in `order` has a higher wish, none has for the following ones.
  bool to_the_end = false;
  for (const Place& place : newcomers) {
    auto before = order.end();
    if (!to_the_end)
      before = std::find_if(order.begin() + (head_stays ? 1 : 0), order.end(),
                            [&](const Place& other) { return other.wish > place.wish; });
    to_the_end = before == order.end();
    order.insert(before, place);
  }
  std::vector<NodeId> out;
  out.reserve(order.size());
  for (const Place& place : order) out.push_back(place.id);
  return out;
}

Coordinator::Orders Coordinator::dismiss(NodeId node, TimePoint now) {
  Member member = remove(members_.find(node));
  gone_.insert(node);
  return Orders{Dismiss{node, std::move(*member.farewell)}} + go_on(now);
}

Coordinator::Orders Coordinator::end_job(Outcome outcome) {
  Over over{outcome};
  for (const auto& [node, member] : members_) over.untold.insert(node);
  state_ = std::move(over);
  return {EndJob{std::move(outcome), true}};
}

}  // namespace ddprun::rendezvous
