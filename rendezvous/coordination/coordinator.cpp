#include "rendezvous/coordination/coordinator.h"

#include <algorithm>
#include <utility>

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
      members_(policy.fixed_ranks),
      electorates_(policy.record_outside, {}),
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
      members_(policy.fixed_ranks),
      electorates_(policy.record_outside, succession.record.electorates()),
      record_(succession.record.id()),
      takeover_reason_("another node coordinates the job"),
      state_(Gathering{now, now}) {
  const Round& record = succession.record;
  if (record.resized) take_range(*record.resized, policy_, resized_);
  if (record.number > 0) clock_.round_formed(record.number, succession.round_ran ? now - succession.record_age : now);
  clock_.round_ended(RoundEnd::failure, now);
  excluded_.restore(record.ledger.excluded, succession.record_age, now);
  for (const RoundNode& node : record.nodes) {
    last_by_rank_.push_back(node.id);
    members_.lose(node.id, {succession.workers_until, name_of(node.name, node.control.host)});
  }
  if (succession.over) state_ = JobEnd(*succession.over, /*inherited=*/true);
  if (succession.over || record.coordinator == self) return;  // handed over
  const RoundNode* before = record.find(record.coordinator);
  const NodeOffer lost_node = before ? NodeOffer{.host = before->control.host, .name = before->name} : NodeOffer{};
  if (before) takeover_reason_ = name_of(lost_node) + ", the coordinator, was lost";
  if (auto end = charge_lost_node(lost_node, takeover_reason_, now))
    state_ = JobEnd(std::move(*end), /*inherited=*/true);
}

std::vector<Order> Coordinator::on(const Message& message, TimePoint now) {
  now_ = now;
  if (std::holds_alternative<HandedOver>(state_)) return {};
  members_.forget_dead(now);
  if (auto* end = std::get_if<JobEnd>(&state_)) return after_end(*end, message);
  std::erase_if(searching_nodes_, [&](const auto& entry) { return entry.second <= now; });
  Orders readmitted = readmit(now);
  Orders orders = std::move(readmitted) + std::visit([&](const auto& m) { return handle(m, now); }, message);
  watch_stop();
  return orders;
}

std::optional<TimePoint> Coordinator::next_deadline() const {
  const bool awaits_lost = !members_.lost().empty();
  if (is_over() && awaits_lost) return members_.lost_until();
  const auto* state = std::get_if<Gathering>(&state_);
  if (!state) return is_over() ? std::nullopt : excluded_.next_end();
  std::optional<TimePoint> next;
  const auto consider = [&](TimePoint when) {
    if (when > now_ && (!next || when < *next)) next = when;  // past deadlines wait for nodes
  };
  consider(state->not_before);
  consider(state->since + policy_.join_timeout);
  if (state->last_call_over) consider(*state->last_call_over);
  if (awaits_lost) consider(members_.lost_until());
  for (const auto& [node, until] : searching_nodes_) consider(until);
  if (const auto end = excluded_.next_end()) consider(*end);
  return next;
}

std::vector<Electorate> Coordinator::electorates() const {
  std::vector<Electorate> out = electorates_.all(is_gone());
  const auto* end = policy_.record_outside ? nullptr : std::get_if<JobEnd>(&state_);  // there it is no vote that counts
  std::erase_if(out, [&](const Electorate& one) { return end && one.has_quorum(end->notified()); });
  return out;
}

std::function<bool(NodeId)> Coordinator::is_gone() const {
  return [this](NodeId node) { return members_.is_gone(node); };
}

LedgerRecord Coordinator::ledger_record(TimePoint now) const {
  LedgerRecord out = ledger_.record(now);
  out.excluded = excluded_.record(now);
  out.account = clock_.closed(now);
  return out;
}

const Outcome* Coordinator::outcome() const {
  const auto* end = std::get_if<JobEnd>(&state_);
  return end ? &end->outcome() : nullptr;
}

std::optional<Attendance> Coordinator::attendance() const {
  if (!std::holds_alternative<Gathering>(state_)) return {};
  Attendance out{.nodes = members_.fit()};
  out.nodes_wanted = out.nodes < policy_.nodes_min ? policy_.nodes_min : policy_.nodes_max;
  const auto await = [&](const auto& name) {
    if (out.awaited.size() < kAwaitedNamesMax)
      out.awaited.push_back(name());
    else
      ++out.awaited_more;
  };
  for (const auto& [node, member] : members_.all()) {
    if (is_fit(member))
      out.workers += member.offer.workers;
    else
      await([&offer = member.offer] {
        return name_of(offer) + (offer.unfit.empty() ? "" : " (" + offer.unfit.substr(0, kAwaitedReasonMax) + ")");
      });
  }
  for (const auto& [node, lost] : members_.lost()) await([&lost = lost] { return lost.name; });
  const bool knows_ranks = policy_.fixed_ranks && members_.lost().empty();  // a lost node may have one of them
  for (int rank = 0; knows_ranks && rank < policy_.nodes_max; ++rank)
    if (!members_.of_rank(rank)) await([&] { return "node " + std::to_string(rank); });
  return out;
}

Coordinator::Orders Coordinator::handle(const NodeReady& message, TimePoint now) {
  if (!members_.contains(message.node)) {
    if (auto refused = refusal(message.offer, members_, policy_, resized_.has_value()))
      return {Dismiss{message.node, std::move(*refused)}};
    members_.add(message.node, message.offer);
  }
  rounds_seen_ = std::max(rounds_seen_, message.offer.rounds);
  Member& member = take(message.node, message.offer, /*ready=*/true);
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
  return regroup_as_planned(name_of(member.offer) + " joins", now);
}

Coordinator::Orders Coordinator::handle(const NodeConfirmed& message, TimePoint) {
  Active* state = active(message.round, message.node);
  if (!state || !state->confirmed.insert(message.node).second) return {};
  if (state->confirmed.size() < state->round.nodes.size()) return {};
  electorates_.round_confirmed();
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
  Member* const found = members_.find(message.node);
  if (!found || found->dismissal) return {};
  Member& member = *found;
  member.dismissal = interrupted(message.signal, "this node left");
  credit_round(now);
  if (members_.staying() < policy_.nodes_min)
    return end_job(interrupted(message.signal, "interrupted, as " + name_of(member.offer) + " has to leave"));
  if (member.ready) return dismiss(message.node, now);
  if (!active_with(message.node)) return {};  // it is stopping its workers
  ledger_.charge_preemption();
  return regroup({0, true, name_of(member.offer) + " leaves"}, now, now);
}

Coordinator::Orders Coordinator::handle(const JobInterrupted& message, TimePoint) {
  const Member* found = members_.find(message.node);
  if (!found) return end_job(interrupted(message.signal));
  return end_job(interrupted(message.signal, "interrupted on " + name_of(found->offer)));
}

// While it was lost, its rank may have gone to another node.
Coordinator::Orders Coordinator::handle(const NodeBack& message, TimePoint now) {
  if (!members_.contains(message.node))
    members_.add(message.node, message.offer, refusal(message.offer, members_, policy_, resized_.has_value()));
  take(message.node, message.offer, /*ready=*/false);
  if (active(message.round, message.node)) return {};
  return Orders{Recall{message.node, message.round, takeover_reason_}} + advance(now);
}

Coordinator::Orders Coordinator::handle(const NodeLost& message, TimePoint now) {
  if (!members_.contains(message.node)) return {};
  const Member member = members_.remove(message.node);
  const std::string name = name_of(member.offer);
  if (!member.ready) members_.lose(message.node, {message.workers_until, name});
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
  members_.note_gone(message.node);
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
  members_.has_come(message.node);
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

// Other nodes may have ended with it.
Coordinator::Orders Coordinator::handle(const JobWasOver& message, TimePoint) {
  members_.forget_lost(message.node);
  Orders orders = end_job(message.outcome);
  std::get<JobEnd>(state_).inherit();
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

Member& Coordinator::take(NodeId node, const NodeOffer& offer, bool ready) {
  Member& member = members_.at(node);
  members_.take_offer(member, offer);
  members_.set_ready(member, ready);
  searching_nodes_.erase(node);
  members_.has_come(node);
  return member;
}

Coordinator::Orders Coordinator::regroup(EndRound end, TimePoint now, TimePoint not_before) {
  end.round = std::get<Active>(state_).round.number;
  clock_.round_ended(round_end(end.planned, end.cause), now);
  state_ = Gathering{now, not_before};
  return Orders{std::move(end)} + advance(now);
}

Coordinator::Orders Coordinator::regroup_as_planned(std::string reason, TimePoint now) {
  credit_round(now);
  ledger_.charge_resize();
  return regroup({0, true, std::move(reason)}, now, now);
}

Coordinator::Orders Coordinator::advance(TimePoint now) {
  auto* state = std::get_if<Gathering>(&state_);
  if (!state) return {};
  members_.forget_dead(now);
  update_last_call(*state, now);
  if (can_form(*state, now)) return form();
  if (now < state->since + policy_.join_timeout || may_form_yet()) return {};
  const bool had_enough = rounds_ > 0 || rounds_seen_ > 0;
  return end_job(
      {had_enough ? Verdict::too_few_left : Verdict::too_few_nodes, 0, why_no_round() + unfit_nodes(), std::nullopt});
}

std::string Coordinator::why_no_round() const {
  const int fit = members_.fit();
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
  for (const auto& [node, member] : members_.all()) {
    if (member.offer.unfit.empty()) continue;
    if (++named > static_cast<int>(kAwaitedNamesMax)) return out + "; and others";
    out += "; " + name_of(member.offer) + " cannot take part (" + member.offer.unfit.substr(0, kAwaitedReasonMax) + ")";
  }
  return out;
}

bool Coordinator::may_form_yet() const {
  if (members_.staying() < policy_.nodes_min) return false;
  return !members_.has_unfit() || has_quorum([](const Member& member) { return !member.ready || is_fit(member); });
}

Coordinator::Orders Coordinator::dismiss(NodeId node, TimePoint now) {
  Member member = members_.remove(node);
  members_.note_gone(node);
  return Orders{Dismiss{node, std::move(*member.dismissal)}} + advance(now);
}

Coordinator::Orders Coordinator::end_job(Outcome outcome) {
  if (!outcome.cause) ledger_.end_without_failure();
  clock_.round_ended(round_end(outcome), now_);
  state_ = JobEnd(outcome, /*inherited=*/false, members_.which([](const Member&) { return true; }));
  return {EndJob{std::move(outcome), true}};
}

}  // namespace ddprun::rendezvous
