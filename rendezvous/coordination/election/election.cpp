#include "rendezvous/coordination/election/election.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/random.h"

namespace ddprun::rendezvous {

namespace {

constexpr int kDoublingsMax = 3;
constexpr std::chrono::hours kHeardAgeMax{1};  // longer than any lease

}  // namespace

Election::Election(NodeId self, std::uint64_t seed, const ElectionTiming& timing)
    : self_(self), random_(seed ^ self), timing_(timing) {}

std::vector<ElectionAction> Election::on(const ElectionEvent& event, TimePoint now) {
  return std::visit([&](const auto& e) { return handle(e, now); }, event);
}

std::optional<TimePoint> Election::next_deadline() const { return next_try_; }

std::vector<ElectionAction> Election::handle(const RecordKept& event, TimePoint now) {
  if (event.id < newest_) return {};
  newest_ = event.id;
  record_since_ = now;
  begun_ = gone_ = false;
  dead_.clear();
  record_ = event.record ? std::make_shared<const Round>(*event.record) : nullptr;
  return {};
}

std::vector<ElectionAction> Election::handle(const RoundBegan& event, TimePoint) {
  if (!record_ || record_->number != event.round) return {};
  begun_ = true;
  forget_earlier_electorates();
  return {};
}

// A node that is not in that round must start no coordinator from an earlier record.
std::vector<ElectionAction> Election::handle(const RecordConfirmed& event, TimePoint now) {
  if (!record_) return {};
  if (!event.ours) return handle(RecordKept{event.id, {}}, now);
  if (record_->id() == event.id) forget_earlier_electorates();
  return {};
}

void Election::forget_earlier_electorates() {
  if (record_->previous_electorates.empty()) return;
  Round confirmed = *record_;
  confirmed.previous_electorates.clear();
  record_ = std::make_shared<const Round>(std::move(confirmed));
}

std::vector<ElectionAction> Election::handle(const RecordResized& event, TimePoint) {
  if (!record_ || record_->id() != event.id) return {};
  Round resized = *record_;
  resized.resized = event.range;
  record_ = std::make_shared<const Round>(std::move(resized));
  return {};
}

std::vector<ElectionAction> Election::handle(const CoordinatorConnected& event, TimePoint) {
  if (event.term > term_) voted_for_.reset();
  term_ = std::max(term_, event.term);
  followed_ = event.term;
  connected_ = true;
  gone_ = false;
  candidacy_.reset();
  next_try_.reset();
  back_off_until_ = {};
  failed_tries_ = 0;
  return {};
}

std::vector<ElectionAction> Election::handle(const CoordinatorDisconnected& event, TimePoint now) {
  heard_at_ = std::max(heard_at_, event.heard_at);
  const bool is_new = std::exchange(connected_, false) || !next_try_;
  gone_ = gone_ || event.gone;
  if (event.gone && record_ && begun_ && followed_ == record_->term) dead_.insert(record_->coordinator);
  if (!record_ || candidacy_) return {};
  if (!can_win(is_absent(now))) return give_up();
  const Duration wait = (event.gone ? Duration::zero() : timing_.reconnect_grace) + turn_delay();
  const TimePoint then = is_successor() ? now : now + wait;
  const bool sooner = failed_tries_ == 0 && now >= back_off_until_ && then < next_try_;
  if (is_new || sooner) next_try_ = then;
  return {};
}

std::vector<ElectionAction> Election::handle(const NodeDead& event, TimePoint now) {
  if (!record_) return {};
  dead_.insert(event.node);
  if (event.node == record_->coordinator) gone_ = true;
  return connected_ || can_win(is_absent(now)) ? Actions{} : give_up();
}

std::vector<ElectionAction> Election::handle(const VoteRequested& event, TimePoint now) {
  const VoteRequest& request = event.request;
  if (connected_) return {GiveVote{vote(false, now)}};
  // Later terms of others would take votes from a candidate that sends requests to a thousand nodes.
  if (now < back_off_until_ && voted_for_ != request.candidate && request.record->id() <= newest_)
    return {GiveVote{vote(false, now)}};
  if (request.term > term_) {
    term_ = request.term;
    voted_for_.reset();
    candidacy_.reset();
  }
  if (!may_vote_for(request)) return {GiveVote{vote(false, now)}};
  voted_for_ = request.candidate;
  if (request.record->id() > newest_ || !record_) {
    const bool whole = !request.record->nodes.empty();
    if (whole || request.record->id() > newest_) {
      record_ = whole ? request.record : nullptr;
      record_since_ = now;
    }
    dead_.clear();
    if (record_) begun_ = false;
  }
  newest_ = request.record->id();
  back_off(now);
  return {GiveVote{vote(true, now)}};
}

bool Election::may_vote_for(const VoteRequest& request) const {
  if (request.term < term_ || request.record->id() < newest_) return false;
  if (!request.record->nodes.empty() && !has_vote_in(*request.record)) return false;  // another node had our address
  return !voted_for_ || voted_for_ == request.candidate;
}

bool Election::has_vote_in(const Round& record) const {
  const std::vector<Electorate> all = record.electorates();
  return std::any_of(all.begin(), all.end(), [&](const Electorate& one) {
    return std::find(one.nodes.begin(), one.nodes.end(), self_) != one.nodes.end();
  });
}

std::vector<ElectionAction> Election::handle(const VoteGiven& event, TimePoint now) {
  if (event.vote.term > term_) {
    term_ = event.vote.term;
    voted_for_.reset();
    back_off_until_ = {};
    if (std::exchange(candidacy_, std::nullopt)) {
      next_try_ = is_successor() ? now : now + pause();
    }
    return {};
  }
  if (!candidacy_) return {};
  if (!event.vote.granted) {
    // Handed over to us: a node that refuses does not know yet that the coordinator stopped.
    if (is_successor() && next_try_) next_try_ = std::min(*next_try_, now + successor_retry());
    return {};
  }
  if (event.vote.term < term_) return {};
  candidacy_->votes.insert(event.voter);
  candidacy_->heard_at = std::max(candidacy_->heard_at, now - event.vote.heard_age);
  return count_votes(now);
}

std::vector<ElectionAction> Election::handle(const CoordinatorAnnounced& event, TimePoint) {
  if (!would_follow(event.term)) return {};
  if (event.term > term_) voted_for_.reset();
  term_ = std::max(term_, event.term);
  candidacy_.reset();
  next_try_.reset();  // until we lose that one, too
  back_off_until_ = {};
  return {Follow{}};
}

std::vector<ElectionAction> Election::handle(const ElectionTick&, TimePoint now) {
  if (!next_try_ || now < *next_try_) return {};
  return start_candidacy(now);
}

std::vector<ElectionAction> Election::start_candidacy(TimePoint now) {
  next_try_.reset();
  if (connected_ || !record_) return {};
  if (!can_win(is_absent(now))) return give_up();
  if (!can_win(true)) {  // the coordinator may return before that
    next_try_ = heard_at_ + timing_.absent_after;
    return {};
  }
  ++term_;
  voted_for_ = self_;
  candidacy_ = Candidacy{record_, record_->electorates(), {self_}, now, heard_at_};
  ++failed_tries_;
  back_off(now);
  Actions request{AskForVotes{{term_, self_, record_}}};
  const Actions won = count_votes(now);
  return won.empty() ? request : won;
}

// Counts every node that is not known to be dead. In a hand-over the record, which has not begun, names another
// coordinator, which will lead.
bool Election::can_win(bool without_coordinator) const {
  for (const Electorate& electorate : record_->electorates()) {
    std::set<NodeId> there(electorate.nodes.begin(), electorate.nodes.end());
    for (const NodeId node : dead_) there.erase(node);
    if (without_coordinator && begun_ && record_->coordinator != self_) there.erase(record_->coordinator);
    if (!electorate.has_quorum(there)) return false;
  }
  return true;
}

bool Election::is_alone() const {
  return record_ && std::all_of(record_->nodes.begin(), record_->nodes.end(),
                                [this](const RoundNode& node) { return node.id == self_ || dead_.contains(node.id); });
}

bool Election::is_absent(TimePoint now) const { return gone_ || now - heard_at_ >= timing_.absent_after; }

std::vector<ElectionAction> Election::give_up() {
  candidacy_.reset();
  next_try_.reset();
  return {GiveUp{!can_win(false)}};
}

std::vector<ElectionAction> Election::count_votes(TimePoint now) {
  for (const Electorate& electorate : candidacy_->electorates) {
    if (2 * candidacy_->votes.size() < electorate.nodes.size()) return {};  // saves the check of each node
    if (!electorate.has_quorum(candidacy_->votes)) return {};
  }
  const Lead lead{term_, *candidacy_->record, candidacy_->requested_at, candidacy_->heard_at, now - record_since_};
  candidacy_.reset();
  next_try_.reset();
  back_off_until_ = {};
  connected_ = true;  // with ourselves
  followed_ = term_;
  return {lead};
}

Vote Election::vote(bool granted, TimePoint now) const {
  return {term_, granted, std::min<Duration>(now - heard_at_, kHeardAgeMax), self_};
}

Duration Election::turn_delay() {
  int place = 0;
  for (const RoundNode& node : record_->nodes) {
    if (node.id == self_) break;
    place += node.id != record_->coordinator;
  }
  const Duration turn =
      place * (timing_.step + static_cast<Duration::rep>(record_->nodes.size()) * timing_.step_per_node);
  return turn < timing_.turn_max ? turn : timing_.turn_max + random_part_of(timing_.turn_max);
}

// In case the candidate does not win.
void Election::back_off(TimePoint now) {
  next_try_.reset();
  if (!record_) return;
  const Duration for_all = static_cast<Duration::rep>(record_->nodes.size()) * timing_.vote_timeout_per_node;
  back_off_until_ = now + timing_.vote_timeout + for_all;
  next_try_ = back_off_until_ + random_part_of(4 * for_all) + pause();
}

Duration Election::pause() {
  const int doubled = std::clamp(failed_tries_ - 1, 0, kDoublingsMax);
  return random_part_of(timing_.pause_max * (1 << doubled));
}

Duration Election::successor_retry() const {
  return timing_.reconnect_grace * (1 << std::clamp(failed_tries_ - 1, 0, kDoublingsMax));
}

// The coordinator handed over to us.
bool Election::is_successor() const { return record_->coordinator == self_; }

Duration Election::random_part_of(Duration most) {
  return Duration(static_cast<Duration::rep>(next_random(random_) % static_cast<std::uint64_t>(most.count())));
}

}  // namespace ddprun::rendezvous
