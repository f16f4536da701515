#include "rendezvous/etcd/etcd_election.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/random.h"
#include "rendezvous/coordination/round/ledger.h"

namespace ddprun::rendezvous {
namespace {

constexpr int kEtcdDoublingsMax = 3;
constexpr int kOlderAnswersMax = 3;
constexpr int kVouching = 3;          // nodes of a round
constexpr int kVouchesInSilence = 5;  // of each node

std::vector<EtcdAction> operator+(std::vector<EtcdAction> first, std::vector<EtcdAction> then) {
  for (EtcdAction& action : then) first.push_back(std::move(action));
  return first;
}

}  // namespace

EtcdElection::EtcdElection(NodeId self, std::uint64_t seed, const EtcdTiming& timing, std::string host,
                           std::string mark)
    : self_(self), host_(std::move(host)), mark_(std::move(mark)), random_(seed ^ self), timing_(timing) {}

std::vector<EtcdAction> EtcdElection::on(const EtcdEvent& event, TimePoint now) {
  if (over_) return {};
  return std::visit([&](const auto& e) { return handle(e, now); }, event);
}

// Only what decide() does then: a deadline that has passed and changes nothing would be due for ever.
std::optional<TimePoint> EtcdElection::next_deadline() const {
  if (over_) return {};
  std::optional<TimePoint> out;
  const auto consider = [&](TimePoint when) { out = out ? std::min(*out, when) : when; };
  if (!asked_ && (leads_ || !known_ || connection_.to == 0)) consider(next_);
  if (leads_ && known_ && lead_.to_store && !lead_.storing) consider(lead_.store_at);
  if (leads_ || !known_ || asked_) return out;
  if (turn_at_) consider(*turn_at_);
  if (silence_.vouch_at && vouches()) consider(*silence_.vouch_at);
  return out;
}

// An answer may be older than what the watch has seen since: then it is asked again. If all are, etcd has lost its
// data.
bool EtcdElection::take(const EtcdKeys& keys) {
  if (keys.revision < keys_.revision && ++older_ < kOlderAnswersMax) return false;
  older_ = 0;
  if (keys.record_revision != keys_.record_revision) silence_.since.reset();
  keys_ = keys;
  has_met_job_ |= keys_.holder.has_value();
  record_is_old_ = false;
  if (is_ours() && !keys_.record) lead_.released = keys_.holder_revision;  // somebody has removed the record
  return true;
}

std::vector<EtcdAction> EtcdElection::handle(const KeysRead& event, TimePoint now) {
  asked_.reset();
  failures_ = 0;
  known_ = take(event.keys);
  next_ = known_ ? now + timing_.read_every + random_part_of(timing_.read_every) : now;
  if (!known_) return decide(now);
  if (leads_) {
    if (is_ours() && keys_.holder->term == lead_.term) {
      lead_.fence = keys_.holder_revision;  // a claim of which we did not know that it was won
      next_ = now;
      return decide(now);
    }
    return reclaim(now);
  }
  if (keys_.record && !keys_.record->over && keys_.record->mark != mark_) return over_ = true, Actions{WrongMark{}};
  if (is_ours()) return claim(keys_.record->term + 1, now);  // won late: nobody knows how long its lease has run
  if (connection_.to == 0) {
    if (newest_.round > 0 && !keys_.record) return over_ = true, Actions{KeysAreGone{}};
    if (has_ended()) return over_ = true, Actions{LearnEnd{*keys_.record->over}};
  }
  return decide(now);
}

// For this agent, too: it was in the job, or waited for it. Who comes later begins the job again.
bool EtcdElection::has_ended() const {
  if (!keys_.record || !keys_.record->over) return false;
  return newest_.round > 0 ? keys_.record->term >= newest_.term : has_met_job_;
}

std::vector<EtcdAction> EtcdElection::handle(const HolderSeen& event, TimePoint now) {
  if (!known_ || event.keys.revision <= keys_.revision) return {};
  keys_.revision = event.keys.revision;
  keys_.holder = event.keys.holder;
  keys_.holder_revision = event.keys.holder_revision;
  has_met_job_ |= keys_.holder.has_value();
  if (leads_) {
    if (keys_.holder_revision != lead_.fence && !asked_) next_ = now;  // the renewal finds out
    return decide(now);
  }
  if (is_ours() && asked_ != EtcdRequest::claim) {  // an earlier claim was carried out late
    known_ = false;
    next_ = now;
  }
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const ClaimAnswered& event, TimePoint now) {
  if (!event.won) return handle(KeysRead{event.keys}, now);
  asked_.reset();
  failures_ = 0;
  known_ = take(event.keys);
  next_ = now;
  if (!known_) return decide(now);
  if (!leads_) return lead(now);
  lead_.fence = keys_.holder_revision;
  lead_.contact = std::max(lead_.contact, claimed_at_);
  next_ = now + timing_.renew_every;
  lead_.store_at = now;
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const RenewalAnswered& event, TimePoint now) {
  asked_.reset();
  failures_ = 0;
  if (!leads_) return decide(now);
  if (!event.holds) {
    asked_ = EtcdRequest::read;
    return {ReadKeys{}};
  }
  lead_.contact = std::max(lead_.contact, event.sent_at);
  next_ = known_ ? now + timing_.renew_every : now;
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const StoreAnswered& event, TimePoint now) {
  if (!lead_.storing || event.fence != lead_.storing_fence) return {};
  const EtcdRecord record = *std::exchange(lead_.storing, std::nullopt);
  if (!event.stored) {
    if (!lead_.to_store) lead_.to_store = record;
    lead_.store_at = now + timing_.retry_first;
    known_ = false;
    if (!asked_) next_ = now;
    return decide(now);
  }
  keys_.record = record;
  keys_.record_revision = event.record_revision;
  lead_.stored = record.round.id();
  if (lead_.newest_record && lead_.newest_record->round.id() == lead_.stored) lead_.round_waits_since.reset();
  lead_.store_at = std::max(lead_.store_at, now + timing_.store_every);
  if (lead_.to_store && lead_.to_store->round.id() != lead_.stored) lead_.store_at = now;
  return Actions{RecordStored{lead_.stored}} + decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const RequestFailed& event, TimePoint now) {
  ++failures_;
  if (event.request == EtcdRequest::store) {
    if (lead_.storing && !lead_.to_store) lead_.to_store = std::move(lead_.storing);
    lead_.storing.reset();
    lead_.store_at = now + retry_pause();
    return decide(now);
  }
  asked_.reset();
  silence_.since.reset();  // the round's nodes may not have reached etcd either
  next_ = now + retry_pause();
  if (event.request != EtcdRequest::renewal) known_ = false;
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const HolderConnected& event, TimePoint now) {
  connection_.to = connection_.last = connection_.going_to = event.coordinator;
  connection_.term = event.term;
  connection_.gone = 0;
  turn_at_.reset();
  silence_.since.reset();
  silence_.vouch_at.reset();
  record_is_old_ = true;
  if (leads_ && event.coordinator != self_) return stop_leading(now);  // the link has found it before us
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const HolderDisconnected& event, TimePoint now) {
  connection_.heard_at = std::max(connection_.heard_at, event.heard_at);
  if (leads_) return {};  // an attempt before that, or to ourselves
  const bool known_there = (connection_.last != 0 && connection_.last == connection_.going_to) || is_of_this_host();
  if (event.gone && known_there) connection_.gone = connection_.going_to;
  if (std::exchange(connection_.to, 0) != 0) next_ = now + timing_.read_every;
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const SteppedDown&, TimePoint now) {
  return leads_ ? stop_leading(now) : Actions{};
}

std::vector<EtcdAction> EtcdElection::handle(const RoundSeen& event, TimePoint) {
  newest_ = std::max(newest_, event.id);
  group_rank_ = event.group_rank;
  return {};
}

std::vector<EtcdAction> EtcdElection::handle(const RecordChanged& event, TimePoint now) {
  if (!leads_) return {};
  lead_.to_store = lead_.newest_record = EtcdRecord{lead_.term, event.record, {}, event.over, mark_};
  if (event.over || event.record.id() != lead_.stored) lead_.store_at = now;
  if (event.record.id() != lead_.stored && !lead_.round_waits_since) lead_.round_waits_since = now;
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const NodeGone& event, TimePoint now) {
  if (silence_.since) silence_.dead.insert(event.node);
  return decide(now);
}

std::vector<EtcdAction> EtcdElection::handle(const EtcdTick&, TimePoint now) { return decide(now); }

std::vector<EtcdAction> EtcdElection::decide(TimePoint now) {
  if (stands_still(now)) return stop_leading(now);
  if (leads_ && known_) return decide_as_coordinator(now);
  if (!known_) {
    if (asked_ || now < next_) return {};
    asked_ = EtcdRequest::read;
    return {ReadKeys{}};
  }
  return find_coordinator(now);
}

std::vector<EtcdAction> EtcdElection::decide_as_coordinator(TimePoint now) {
  Actions out;
  if (!asked_ && now >= next_) {
    asked_ = EtcdRequest::renewal;
    out.push_back(RenewLease{lead_.fence});
  }
  if (lead_.to_store && !lead_.storing && now >= lead_.store_at) {
    lead_.storing = std::exchange(lead_.to_store, std::nullopt);
    lead_.storing_fence = lead_.fence;
    out.push_back(StoreRecord{lead_.fence, keys_.record_revision, *lead_.storing});
  }
  return out;
}

std::vector<EtcdAction> EtcdElection::find_coordinator(TimePoint now) {
  if (!may_be_taken()) {
    turn_at_.reset();
    silence_.since.reset();
    silence_.vouch_at.reset();
    const bool replaced = connection_.to != keys_.holder->node && keys_.holder->term > connection_.term;
    if ((connection_.to == 0 || replaced) && connection_.going_to != keys_.holder->node && !is_ours())
      return follow(*keys_.holder);
  } else if (connection_.to != 0) {
    if (vouches()) return vouch_for_round(now);
  } else if (record_is_old_) {
    if (!turn_at_) turn_at_ = now + turn();
    if (!asked_ && now >= *turn_at_) {
      next_ = now;
      turn_at_.reset();
    }
  } else if (is_of_others() && !silence_.since) {
    return look_for_round(now);
  } else if (!awaits_silence(now)) {
    if (!turn_at_) turn_at_ = now + turn_by_record();
    if (!asked_ && now >= *turn_at_) return claim((keys_.record ? keys_.record->term : 0) + 1, now);
  }
  if (asked_ || connection_.to != 0 || now < next_) return {};
  asked_ = EtcdRequest::read;
  return {ReadKeys{}};
}

std::vector<EtcdAction> EtcdElection::follow(const EtcdHolder& holder) {
  if (holder.node != connection_.last) connection_.last = 0;
  connection_.going_to = holder.node;
  connection_.to = 0;
  return {FollowHolder{holder.places}};
}

std::vector<EtcdAction> EtcdElection::look_for_round(TimePoint now) {
  silence_.since = now;
  silence_.dead.clear();
  turn_at_.reset();
  connection_.last = connection_.going_to = 0;
  std::vector<RoundNode> nodes = keys_.record->round.nodes;
  std::stable_partition(nodes.begin(), nodes.end(),
                        [&](const RoundNode& node) { return node.id == keys_.record->round.coordinator; });
  return {LookForNodes{std::move(nodes)}};
}

// Its coordinator does not reach etcd, and newcomers may not reach it.
bool EtcdElection::vouches() const {
  return connection_.to != 0 && !keys_.holder && group_rank_ >= 0 && group_rank_ < kVouching;
}

std::vector<EtcdAction> EtcdElection::vouch_for_round(TimePoint now) {
  const Duration every = timing_.silent_round / kVouchesInSilence;
  if (!silence_.vouch_at) {
    silence_.vouch_at = now + every * (1 + group_rank_) / kVouching;
    record_is_old_ = true;
  }
  if (asked_ || now < *silence_.vouch_at) return {};
  if (record_is_old_) {
    asked_ = EtcdRequest::read;
    return {ReadKeys{}};
  }
  record_is_old_ = true;
  silence_.vouch_at = now + every;
  if (!is_member() || keys_.record->over || keys_.record->round.id() != newest_) return {};
  return {StoreRecord{0, keys_.record_revision, *keys_.record}};
}

// Of a job that has ended its rounds are over; its ledger and the numbers go on.
EtcdRecord EtcdElection::next_record(int term) const {
  EtcdRecord out = keys_.record.value_or(EtcdRecord{});
  out.term = term;
  out.mark = mark_;
  if (!out.over) return out;
  const Verdict verdict = std::exchange(out.over, std::nullopt)->verdict;
  out.round.nodes.clear();
  out.round.ledger = ended_for_good(verdict)
                         ? LedgerRecord{}
                         : for_next_start(std::move(out.round.ledger), verdict == Verdict::worker_failed);
  return out;
}

std::vector<EtcdAction> EtcdElection::claim(int term, TimePoint now) {
  turn_at_.reset();
  asked_ = EtcdRequest::claim;
  claimed_at_ = now;
  replaces_ = keys_.holder_revision != 0;
  was_released_ = keys_.holder && keys_.holder->released;
  return {ClaimKey{
      keys_.holder_revision, keys_.record_revision, {.node = self_, .term = term, .host = host_}, next_record(term)}};
}

std::vector<EtcdAction> EtcdElection::lead(TimePoint now) {
  leads_ = true;
  lead_.fence = keys_.holder_revision;
  lead_.term = keys_.holder->term;
  lead_.contact = claimed_at_;
  next_ = now + timing_.renew_every;
  lead_.to_store.reset();
  lead_.storing.reset();
  lead_.store_at = now;
  lead_.newest_record.reset();
  lead_.round_waits_since.reset();
  const EtcdRecord& record = *keys_.record;
  lead_.stored = record.round.id();
  LeadJob out{{lead_.term, record.round, workers_until(now), record.age}, record.term <= 1};
  out.from.round_ran = is_member();
  if (was_released_ || out.from.record.nodes.empty()) out.from.record.coordinator = self_;  // nobody was lost
  return Actions{out} + decide(now);
}

// A key that is there and was not renewed for its lease would have expired; one that was replaced might have been
// renewed a moment ago. Our own contact with the old coordinator is older than our own last word to it.
// A round that was silent for long may have seen our claim only now.
TimePoint EtcdElection::workers_until(TimePoint now) const {
  if (!is_member()) return now + kEtcdKeyLease;
  if (replaces_ || connection_.to != 0) return now + kEtcdWorkersLimit;
  return std::max(now, connection_.heard_at + kEtcdWorkersLimit);
}

// The lease has expired, or somebody has removed the key, or all of etcd's data, or has brought back older data. Who
// has led since has written a later term.
std::vector<EtcdAction> EtcdElection::reclaim(TimePoint now) {
  const bool others = keys_.holder && keys_.holder_revision != lead_.released && keys_.holder->term >= lead_.term;
  const bool of_the_past = !keys_.record || keys_.record->term < lead_.term;
  if (others || (of_the_past ? !lead_.newest_record : keys_.record->term > lead_.term)) return stop_leading(now);
  if (asked_) return {};
  if (of_the_past) keys_.record = lead_.newest_record;
  return claim(lead_.term, now);
}

// The key, if we have it, may be taken at once.
std::vector<EtcdAction> EtcdElection::stop_leading(TimePoint now) {
  leads_ = false;
  lead_.to_store.reset();
  lead_.storing.reset();
  connection_.last = connection_.going_to = 0;
  lead_.released = lead_.fence;
  known_ = false;
  if (!asked_) next_ = now + timing_.successor_first;
  return {StopLeading{lead_.term}, ReleaseKey{lead_.fence, {.node = self_, .term = lead_.term, .released = true}}};
}

LastAct EtcdElection::last_act() const {
  LastAct out{lead_.fence, {.node = self_, .term = lead_.term, .released = true}};
  if (lead_.newest_record && lead_.newest_record->over) out.record = lead_.newest_record;
  return out;
}

bool EtcdElection::is_ours() const {
  return keys_.holder && keys_.holder->node == self_ && !keys_.holder->released &&
         keys_.holder_revision != lead_.released;
}

bool EtcdElection::may_be_taken() const {
  return !keys_.holder || keys_.holder->released || keys_.holder->node == connection_.gone ||
         keys_.holder_revision == lead_.released;
}

// Then a closed port there is surely its own.
bool EtcdElection::is_of_this_host() const {
  return keys_.holder && keys_.holder->node == connection_.going_to && !host_.empty() && keys_.holder->host == host_;
}

bool EtcdElection::is_member() const { return keys_.record && keys_.record->round.find(self_); }

bool EtcdElection::is_of_others() const {
  return keys_.record && !keys_.record->over && !keys_.record->round.nodes.empty() && !is_member();
}

// The keys are read again and again, so this is no deadline.
bool EtcdElection::awaits_silence(TimePoint now) const {
  return is_of_others() && silence_.dead.size() < keys_.record->round.nodes.size() &&
         now < *silence_.since + timing_.silent_round;
}

// Each failed request asks, so this is no deadline.
bool EtcdElection::stands_still(TimePoint now) const {
  return leads_ && lead_.round_waits_since && now - *lead_.round_waits_since >= timing_.stand_still &&
         now - lead_.contact >= timing_.stand_still;
}

Duration EtcdElection::turn() {
  if (group_rank_ < 0) return timing_.turn_most + random_part_of(timing_.turn_most);
  return std::min(group_rank_ * timing_.turn_step, timing_.turn_most) + random_part_of(timing_.turn_step);
}

// The node that the last coordinator has named goes first, and who was not in the round goes last.
Duration EtcdElection::turn_by_record() {
  if (!keys_.record || keys_.record->round.nodes.empty()) return random_part_of(timing_.first_turn);
  const Round& round = keys_.record->round;
  if (round.coordinator == self_) return {};
  const bool named = keys_.holder && keys_.holder->node != round.coordinator;
  const Duration others = named ? timing_.successor_first : Duration::zero();
  return others + (is_member() ? Duration::zero() : timing_.turn_most) + random_part_of(timing_.turn_step);
}

Duration EtcdElection::retry_pause() {
  const Duration pause = timing_.retry_first * (1 << std::clamp(failures_ - 1, 0, kEtcdDoublingsMax));
  const Duration most = std::min(pause, timing_.retry_most);
  return most / 2 + random_part_of(most / 2);
}

Duration EtcdElection::random_part_of(Duration most) {
  return Duration(static_cast<Duration::rep>(next_random(random_) % static_cast<std::uint64_t>(most.count())));
}

}  // namespace ddprun::rendezvous
