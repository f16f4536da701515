#include "rendezvous/coordination/coordinator.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/error.h"
#include "rendezvous/base/overloaded.h"
#include "rendezvous/base/spelling.h"

namespace ddprun::rendezvous {
namespace {

Outcome interrupted(int signal, std::string reason = "interrupted") {
  return {Verdict::interrupted, signal, std::move(reason), std::nullopt};
}

bool ends_job(RuleAction action) { return action == RuleAction::requeue || action == RuleAction::stop; }

std::vector<Order> operator+(std::vector<Order> first, std::vector<Order> then) {
  for (Order& order : then) first.push_back(std::move(order));
  return first;
}

}  // namespace

Coordinator::Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed,
                         std::optional<NodeId> self)
    : policy_(policy),
      ledger_(policy.restarts, now, jitter_seed, policy.earlier_starts),
      excluded_(policy.exclusion),
      clock_(policy.earlier_starts.account, now),
      self_(self),
      now_(now),
      state_(Gathering{now, now}) {
  excluded_.restore(policy.earlier_starts.excluded, {}, now);
}

Coordinator::Coordinator(const RoundPolicy& policy, TimePoint now, std::uint64_t jitter_seed, NodeId self,
                         const Succession& succession)
    : policy_(policy),
      ledger_(policy.restarts, now, jitter_seed, succession.record.ledger, succession.record_age),
      excluded_(policy.exclusion),
      clock_(succession.record.ledger.account, succession.round_ran ? now - succession.record_age : now),
      self_(self),
      term_(succession.term),
      now_(now),
      rounds_(succession.record.number),
      electorates_(policy.record_outside ? std::vector<Electorate>() : succession.record.electorates()),
      record_(succession.record.id()),
      takeover_reason_("another node coordinates the job"),
      state_(Gathering{now, now}) {
  const Round& record = succession.record;
  if (record.resized) take_range(*record.resized);
  if (record.number > 0) clock_.round_formed(record.number, succession.round_ran ? now - succession.record_age : now);
  clock_.round_ended(RoundEnd::failure, now);
  excluded_.restore(record.ledger.excluded, succession.record_age, now);
  for (const RoundNode& node : record.nodes) {
    last_by_rank_.push_back(node.id);
    lose(node.id, {succession.workers_until, name_of(node.name, node.control.host)});
  }
  if (succession.over) state_ = Over{*succession.over, true};
  if (succession.over || record.coordinator == self) return;  // handed over
  const RoundNode* before = record.find(record.coordinator);
  const NodeOffer lost_node = before ? NodeOffer{.host = before->control.host, .name = before->name} : NodeOffer{};
  if (before) takeover_reason_ = name_of(lost_node) + ", the coordinator, was lost";
  if (auto end = charge_lost_node(lost_node, takeover_reason_, now)) state_ = Over{std::move(*end), true};
}

std::vector<Order> Coordinator::on(const Message& message, TimePoint now) {
  now_ = now;
  if (std::holds_alternative<HandedOver>(state_)) return {};
  forget_lost(now);
  if (auto* over = std::get_if<Over>(&state_)) return after_end(*over, message);
  std::erase_if(searching_nodes_, [&](const auto& entry) { return entry.second <= now; });
  Orders readmitted = readmit(now);
  Orders orders = std::move(readmitted) + std::visit([&](const auto& m) { return handle(m, now); }, message);
  watch_stop();
  return orders;
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  if (is_over() && !lost_.empty()) return lost_until_;
  const auto* state = std::get_if<Gathering>(&state_);
  if (!state) return is_over() ? std::nullopt : excluded_.next_end();
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint when) {
    if (when > now_ && (!next || when < *next)) next = when;  // past deadlines wait for nodes
  };
  consider(state->not_before);
  consider(state->since + policy_.join_timeout);
  if (state->last_call_over) consider(*state->last_call_over);
  if (!lost_.empty()) consider(lost_until_);
  for (const auto& [node, until] : searching_nodes_) consider(until);
  if (const auto end = excluded_.next_end()) consider(*end);
  return next;
}

std::vector<Electorate> Coordinator::electorates() const {
  std::vector<Electorate> out = electorates_;
  for (Electorate& one : out) std::erase_if(one.nodes, [&](NodeId node) { return gone_.contains(node); });
  const auto* over = policy_.record_outside ? nullptr : std::get_if<Over>(&state_);  // there it is no vote that counts
  std::erase_if(out,
                [&](const Electorate& one) { return one.nodes.empty() || (over && one.has_quorum(over->notified)); });
  return out;
}

LedgerRecord Coordinator::ledger_record(TimePoint now) const {
  LedgerRecord out = ledger_.record(now);
  out.excluded = excluded_.record(now);
  out.account = clock_.closed(now);
  return out;
}

const Outcome* Coordinator::outcome() const {
  const auto* over = std::get_if<Over>(&state_);
  return over ? &over->outcome : nullptr;
}

std::optional<Attendance> Coordinator::attendance() const {
  if (!std::holds_alternative<Gathering>(state_)) return {};
  Attendance out{.nodes = count_fit()};
  out.nodes_wanted = out.nodes < policy_.nodes_min ? policy_.nodes_min : policy_.nodes_max;
  const auto await = [&](const auto& name) {
    if (out.awaited.size() < kAwaitedNamesMax)
      out.awaited.push_back(name());
    else
      ++out.awaited_more;
  };
  for (const auto& [node, member] : members_) {
    if (is_fit(member))
      out.workers += member.offer.workers;
    else
      await([&offer = member.offer] {
        return name_of(offer) + (offer.unfit.empty() ? "" : " (" + offer.unfit.substr(0, kAwaitedReasonMax) + ")");
      });
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
  take_offer(member, message.offer);
  knows_unfit_ |= !message.offer.unfit.empty();
  rounds_seen_ = std::max(rounds_seen_, message.offer.rounds);
  set_ready(member, true);
  searching_nodes_.erase(message.node);
  has_come(message.node);
  if (member.dismissal) return dismiss(message.node, now);
  const auto* running = std::get_if<Active>(&state_);
  if (!running) return advance(now);
  if (active_with(message.node))
    return regroup({0, false, name_of(member.offer) + " came back without its workers"}, now, now);
  if (static_cast<int>(running->round.nodes.size()) >= policy_.nodes_max) return {};  // a spare
  if (!member.offer.unfit.empty()) return {};
  if (const std::string* why = excluded_.why(member.offer)) {
    member.knows_exclusion = true;
    return {Exclude{message.node, *why, excluded_.left(member.offer, now)}};
  }
  credit_round(now);
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
  if (state->started.size() == state->round.nodes.size() && !state->all_started_at) {
    state->all_started_at = now;
    clock_.workers_run(now);
  }
  return {};
}

Coordinator::Orders Coordinator::handle(const NodeDone& message, TimePoint) {
  Active* state = active(message.round, message.node);
  if (!state) return {};
  state->done.insert(message.node);
  if (state->done.size() < state->round.nodes.size()) return {};
  return end_job({Verdict::success, 0, "all workers succeeded", std::nullopt});
}

Coordinator::Orders Coordinator::handle(const WorkerFailed& message, TimePoint now) {
  Failure failure = message.failure;
  const Active* state = active(failure.round, failure.node);
  if (!state) return {};
  const Duration ran = state->all_started_at ? now - *state->all_started_at : Duration::zero();
  const bool progressed = message.progressed.value_or(ran >= policy_.restarts.progress_after);
  if (failure.kind == FailureClass::clean) failure.kind = class_of(failure.status, progressed);
  if (message.rule && ends_job(message.rule->action)) return follow(*message.rule, failure);
  note_failure_of(failure, message.rule && message.rule->action == RuleAction::restart_elsewhere, now);
  ledger_.learn_hung_at(failure.place);
  const Ruling ruling =
      ledger_.charge_failure({failure.status, failure.kind, progressed, ran, failure.last_line,
                              message.rule.has_value(), message.progressed.has_value(), failure.cannot_begin},
                             now);
  if (!ruling.restart_at)
    return end_job({ruling.final ? Verdict::worker_final : Verdict::worker_failed, 0, ruling.reason, failure});
  return regroup({0, false, ruling.reason, failure}, now, *ruling.restart_at);
}

Coordinator::Orders Coordinator::follow(const RuleMatch& rule, const Failure& failure) {
  ledger_.end_without_failure();
  return end_job({rule.action == RuleAction::requeue ? Verdict::requeue : Verdict::worker_final, 0,
                  "the rule at " + rule.place + " says " + name_of(rule.action), failure});
}

// The others continue if enough of them stay.
Coordinator::Orders Coordinator::handle(const NodeLeaves& message, TimePoint now) {
  const auto found = members_.find(message.node);
  if (found == members_.end()) return {};
  Member& member = found->second;
  if (member.dismissal) return {};
  member.dismissal = interrupted(message.signal, "this node left");
  credit_round(now);
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
  take_offer(member, message.offer);
  set_ready(member, false);
  searching_nodes_.erase(message.node);
  has_come(message.node);
  if (active(message.round, message.node)) return {};
  return Orders{Recall{message.node, message.round, takeover_reason_}} + advance(now);
}

Coordinator::Orders Coordinator::handle(const NodeLost& message, TimePoint now) {
  const auto found = members_.find(message.node);
  if (found == members_.end()) return {};
  const Member member = remove(found);
  const std::string name = name_of(member.offer);
  if (!member.ready) lose(message.node, {message.workers_until, name});
  const Active* state = active_with(message.node);
  if (!state) return advance(now);
  // Its workers have ended well; but without group rank 0's node the others have lost their store.
  if (state->done.contains(message.node) && state->round.nodes.front().id != message.node) return {};
  const std::string what = name + " was lost: " + message.how;
  if (auto end = charge_lost_node(member.offer, what, now)) return end_job(std::move(*end));
  return regroup({0, false, what}, now, now);
}

// The job's end, if a rule or a limit wants it.
std::optional<Outcome> Coordinator::charge_lost_node(const NodeOffer& node, const std::string& what, TimePoint now) {
  credit_round(now);
  const auto rule = first_match(policy_.rules, FailureClass::lost_node, {}, [](const auto&) { return false; });
  if (rule && ends_job(rule->action))
    return Outcome{rule->action == RuleAction::requeue ? Verdict::too_few_left : Verdict::stopped, 0,
                   what + ", and the rule at " + rule->place + " says " + name_of(rule->action), std::nullopt};
  if (rule && rule->action == RuleAction::restart_elsewhere)
    excluded_.exclude(node, "a rule says " + name_of(rule->action), now);
  const Ruling ruling = ledger_.charge_lost_node(now);
  if (ruling.restart_at) return {};
  return Outcome{Verdict::too_few_left, 0, what + ", and " + ruling.reason, std::nullopt};
}

// A round that ends without a worker's failure earns restarts back as well.
void Coordinator::credit_round(TimePoint now) {
  const auto* state = std::get_if<Active>(&state_);
  if (!state || !state->all_started_at) return;
  if (const Duration ran = now - *state->all_started_at; ran >= policy_.restarts.progress_after) ledger_.credit(ran);
}

Coordinator::Orders Coordinator::handle(const NodeGone& message, TimePoint now) {
  if (members_.contains(message.node)) return {};  // it has come back since
  lost_.erase(message.node);
  gone_.insert(message.node);
  return advance(now);
}

// A node that finds its coordinator there stops searching, and that coordinator announces itself to ours.
Coordinator::Orders Coordinator::handle(const JobElsewhere& message, TimePoint now) {
  searching_nodes_[message.node] = now + kSearchRetryWithin;
  rounds_seen_ = std::max(rounds_seen_, message.round);
  return {};
}

Coordinator::Orders Coordinator::handle(const JobAbandoned& message, TimePoint now) {
  searching_nodes_.erase(message.node);
  has_come(message.node);
  return handle(NodeLost{message.node, now, "it left in order to rejoin"}, now) + handle(NodeGone{message.node}, now);
}

Coordinator::Orders Coordinator::handle(const NodeNotified&, TimePoint) { return {}; }

Coordinator::Orders Coordinator::handle(const NodeStandings& message, TimePoint now) {
  Active* state = active(message.round, message.node);
  if (!state || !state->all_started_at) return {};
  HangInquiry::Next next = state->inquiry.on(message.node, message.standings, now);
  Orders orders;
  if (next.ask) orders.push_back(AskStandings{message.round});
  if (next.found)
    orders.push_back(BlameWorker{next.node, message.round, next.found->rank, next.found->text, next.found->of_all});
  return orders;
}

Coordinator::Orders Coordinator::handle(const NodeLearned& message, TimePoint) {
  const Active* state = active(message.round, message.node);
  if (state && message.times.world_size == state->round.world_size()) ledger_.learn(message.round, message.times);
  return {};
}

Coordinator::Orders Coordinator::handle(const StacksWanted& message, TimePoint) {
  if (!std::holds_alternative<Active>(state_)) return {StacksOfNode{message.node, message.serial, 0, ""}};
  return {TakeStacks{message.node, message.serial}};
}

Coordinator::Orders Coordinator::handle(const StacksTaken& message, TimePoint) {
  const auto* state = std::get_if<Active>(&state_);
  const int nodes = state ? static_cast<int>(state->round.nodes.size()) : 0;
  return {StacksOfNode{message.asker, message.serial, nodes, message.text}};
}

// Between two rounds people want to know why the last one has failed.
Coordinator::Orders Coordinator::handle(const RankAsked& message, TimePoint) {
  int world_size = 0;
  for (const RoundNode& node : last_nodes_) {
    world_size += node.workers;
    const bool runs = message.rank >= node.first_rank && message.rank < node.first_rank + node.workers;
    if (runs && members_.contains(node.id))
      return {AskRank{node.id, message.node, message.serial, message.rank, message.question}};
    if (runs) return {AnswerOfRank{message.node, message.serial}};
  }
  return {AnswerOfRank{message.node, message.serial, world_size}};
}

Coordinator::Orders Coordinator::handle(const RankAnswered& message, TimePoint) {
  return {AnswerOfRank{message.asker, message.serial, 0, message.text}};
}

// Other nodes may have ended with it.
Coordinator::Orders Coordinator::handle(const JobWasOver& message, TimePoint) {
  lost_.erase(message.node);
  Orders orders = end_job(message.outcome);
  std::get<Over>(state_).inherited = true;
  return orders;
}

Coordinator::Orders Coordinator::handle(const CoordinatorTick&, TimePoint now) { return advance(now); }

Coordinator::Active* Coordinator::active(int round, NodeId node) {
  Active* state = active_with(node);
  return state && state->round.number == round ? state : nullptr;
}

Coordinator::Active* Coordinator::active_with(NodeId node) {
  auto* state = std::get_if<Active>(&state_);
  return state && state->round.find(node) ? state : nullptr;
}

// A step has no other nodes than its tasks, and spares are asked for: one task more than the job takes is a mistake.
std::string Coordinator::surplus_of_step(const NodeOffer& newcomer) const {
  if (newcomer.step.empty() || policy_.nodes_min < policy_.nodes_max || resized_) return {};
  std::vector<std::string> inside;
  for (const auto& [node, member] : members_)
    if (member.offer.step == newcomer.step && member.offer.unfit.empty() && !member.dismissal)
      inside.push_back(name_of(member.offer));
  if (static_cast<int>(inside.size()) < policy_.nodes_max + policy_.spares) return {};
  const std::size_t all = inside.size();
  inside.resize(std::min(all, kAwaitedNamesMax));
  return "of " + newcomer.step + " the job has its " + std::to_string(all) + " nodes, " + listed(inside, "and") +
         (inside.size() < all ? " among them" : "") + ", and " + name_of(newcomer) +
         " is one more: start one ddprun per node (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node), or pass "
         "--spares for nodes that are to wait";
}

std::optional<Outcome> Coordinator::refusal(const NodeOffer& newcomer) const {
  const auto refused = [](std::string why) { return Outcome{Verdict::refused, 0, std::move(why), std::nullopt}; };
  if (!policy_.fixed_ranks) {
    std::string why = surplus_of_step(newcomer);
    return why.empty() ? std::nullopt : std::optional(refused(std::move(why)));
  }
  const int rank = newcomer.requested_rank.value_or(0);
  const int nodes = policy_.nodes_max + policy_.spares;
  if (rank < 0 || rank >= nodes)
    return refused("node rank " + std::to_string(rank) + " of " + name_of(newcomer) + " is not one of the job's " +
                   std::to_string(nodes) + " (0 to " + std::to_string(nodes - 1) + ")");
  if (const auto held = rank_held_.find(rank); held != rank_held_.end())
    return refused("node rank " + std::to_string(rank) + " is requested by " + name_of(newcomer) +
                   " and already held by " + name_of(members_.at(held->second).offer) +
                   "; give each node a --node-rank of its own");
  return {};
}

void Coordinator::add(NodeId node, Member member) {
  if (policy_.fixed_ranks) rank_held_.emplace(member.offer.requested_rank.value_or(0), node);
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

void Coordinator::has_come(NodeId node) {
  lost_.erase(node);
  gone_.erase(node);
}

int Coordinator::staying() const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.dismissal && (!entry.second.ready || entry.second.offer.unfit.empty());
  }));
}

Coordinator::Orders Coordinator::regroup(EndRound end, TimePoint now, TimePoint not_before) {
  end.round = std::get<Active>(state_).round.number;
  clock_.round_ended(round_end(end.planned, end.cause), now);
  state_ = Gathering{now, not_before};
  return Orders{std::move(end)} + advance(now);
}

Coordinator::Orders Coordinator::advance(TimePoint now) {
  auto* state = std::get_if<Gathering>(&state_);
  if (!state) return {};
  forget_lost(now);
  update_last_call(*state, now);
  if (can_form(*state, now)) return form();
  if (now < state->since + policy_.join_timeout || may_form_yet()) return {};
  const bool had_enough = rounds_ > 0 || rounds_seen_ > 0;
  return end_job(
      {had_enough ? Verdict::too_few_left : Verdict::too_few_nodes, 0, why_no_round() + unfit_nodes(), std::nullopt});
}

std::string Coordinator::why_no_round() const {
  const int fit = count_fit();
  if (fit >= policy_.nodes_min)
    return "the nodes that are left, " + std::to_string(fit) + ", are no majority of those of the last round";
  return "only " + std::to_string(fit) + " of " + std::to_string(policy_.nodes_min) +
         " nodes joined in time (--rdzv-conf join_timeout=" +
         std::to_string(std::chrono::duration_cast<std::chrono::seconds>(policy_.join_timeout).count()) + ")";
}

// "; node3 cannot take part (unkillable: rank 1 (process 5))"
std::string Coordinator::unfit_nodes() const {
  std::string out;
  int named = 0;
  for (const auto& [node, member] : members_) {
    if (member.offer.unfit.empty()) continue;
    if (++named > static_cast<int>(kAwaitedNamesMax)) return out + "; and others";
    out += "; " + name_of(member.offer) + " cannot take part (" + member.offer.unfit.substr(0, kAwaitedReasonMax) + ")";
  }
  return out;
}

bool Coordinator::may_form_yet() const {
  if (staying() < policy_.nodes_min) return false;
  return !knows_unfit_ || has_quorum([](const Member& member) { return !member.ready || is_fit(member); });
}

// Searches only when the workers of one of them are dead: a thousand nodes come back one after the other.
void Coordinator::forget_lost(TimePoint now) {
  if (lost_.empty() || now < lost_until_) return;
  std::erase_if(lost_, [&](const auto& entry) { return entry.second.workers_until <= now; });
  lost_until_ = TimePoint::max();
  for (const auto& [node, lost] : lost_) lost_until_ = std::min(lost_until_, lost.workers_until);
}

Coordinator::Orders Coordinator::dismiss(NodeId node, TimePoint now) {
  Member member = remove(members_.find(node));
  gone_.insert(node);
  return Orders{Dismiss{node, std::move(*member.dismissal)}} + advance(now);
}

Coordinator::Orders Coordinator::end_job(Outcome outcome) {
  if (!outcome.cause) ledger_.end_without_failure();
  clock_.round_ended(round_end(outcome), now_);
  Over over{outcome};
  for (const auto& [node, member] : members_) over.unconfirmed.insert(node);
  state_ = std::move(over);
  return {EndJob{std::move(outcome), true}};
}

}  // namespace ddprun::rendezvous
