#include "tests/simulation/etcd_model.h"

#include "tests/support/test.h"

namespace ddprun::test {
namespace {

constexpr int kEtcdDelayMs = 15, kExpiryLateMs = 500, kWatchBrokenMs = 5'000;
constexpr Duration kLateMost = 20s, kSentAgainAfter = 100ms, kEndedRecordLease = 60s,
                   kRecordLease = std::chrono::hours(24 * 7);
constexpr double kAnswerLost = 0.02, kRequestDropped = 0.02, kWatchBreaks = 0.05;

}  // namespace

Duration EtcdModel::delay(NodeId node) {
  const auto slow = slow_.find(node);
  if (slow != slow_.end() && net_.now() < slow->second.first) return 250ms + net_.milliseconds(slow->second.second / 2);
  return 1ms + net_.milliseconds(kEtcdDelayMs);
}

bool EtcdModel::reaches(NodeId node) const {
  const auto cut = cut_until_.find(node);
  return !down() && (cut == cut_until_.end() || net_.now() >= cut->second);
}

void EtcdModel::request(NodeId from, const std::function<Reply()>& carry_out) {
  ++requests_;
  net_.after(delay(from), [this, from, carry_out] { arrive(from, carry_out, net_.now() + kLateMost); });
}

// What is on its way while etcd is out of reach may arrive when it is back.
void EtcdModel::arrive(NodeId from, const std::function<Reply()>& carry_out, TimePoint until) {
  if (!reaches(from)) {
    if (net_.now() >= until || net_.chance(kRequestDropped)) return;
    return net_.after(kSentAgainAfter, [this, from, carry_out, until] { arrive(from, carry_out, until); });
  }
  if (net_.chance(kRequestDropped / 2)) return;
  const Reply reply = carry_out();
  if (net_.chance(kAnswerLost)) return;
  net_.after(delay(from), [this, from, reply] { answer(from, reply, net_.now() + kLateMost); });
}

void EtcdModel::answer(NodeId to, const Reply& reply, TimePoint until) {
  if (reaches(to)) return reply();
  if (net_.now() >= until || net_.chance(kRequestDropped)) return;
  net_.after(kSentAgainAfter, [this, to, reply, until] { answer(to, reply, until); });
}

EtcdKeys EtcdModel::keys(bool with_record) {
  EtcdKeys out{revision_, holder_.value, holder_.revision, {}, 0};
  if (!with_record) return out;
  records_read_ += record_.value.has_value();
  out.record = record_.value;
  out.record_revision = record_.revision;
  if (out.record) out.record->age = net_.now() - record_.written_at;
  return out;
}

std::int64_t EtcdModel::grant(Duration lasts) {
  leases_[++last_lease_] = {lasts, now() + lasts};
  expire_later(last_lease_);
  return last_lease_;
}

bool EtcdModel::keep(std::int64_t id) {
  const auto lease = leases_.find(id);
  if (lease == leases_.end()) return false;
  lease->second.until = now() + lease->second.lasts;
  expire_later(id);
  return true;
}

std::int64_t EtcdModel::lease_of(std::int64_t fence) const {
  const auto found = lease_by_fence_.find(fence);
  return found == lease_by_fence_.end() ? 0 : found->second;
}

void EtcdModel::expire_later(std::int64_t id) {
  const Duration left = leases_.at(id).until - now() + 1ms + net_.milliseconds(kExpiryLateMs);
  net_.after(Duration(static_cast<Duration::rep>(left.count() / rate_)), [this, id] {
    const auto lease = leases_.find(id);
    if (lease == leases_.end() || now() < lease->second.until || down()) return;
    leases_.erase(lease);
    if (holder_.revision != 0 && holder_.lease == id) put_holder({}, 0);
    if (record_.lease == id && record_.revision != 0) record_ = {}, ++revision_;
  });
}

void EtcdModel::extend_leases() {
  if (down()) return;
  for (auto& [id, lease] : leases_) {
    lease.until = now() + lease.lasts;
    expire_later(id);
  }
}

void EtcdModel::put_holder(const std::optional<EtcdHolder>& value, std::int64_t lease) {
  holder_changed_ = ++revision_;
  holder_ = value ? HolderKey{value, revision_, lease} : HolderKey{};
  if (value) lease_by_fence_[revision_] = lease;
  for (const auto& [node, watch] : watches_) tell(node);
}

void EtcdModel::put_record(const EtcdRecord& record, int call) {
  const auto& before = record_.value;
  if (before && before->term > record.term) throw std::logic_error("broken: terms only grow");
  if (before && before->round.number > record.round.number) throw std::logic_error("broken: rounds' numbers only grow");
  if (before && !before->over && before->round.ledger.counts.errors > record.round.ledger.counts.errors)
    throw std::logic_error("broken: the ledger is kept");
  const bool is_same =
      before && !holder_.value && before->term == record.term && before->round.id() == record.round.id();
  if (!is_same && (!holder_.value || holder_.value->released || holder_.value->term != record.term))
    throw std::logic_error("broken: only the coordinator that holds the key changes the record");
  if (!first_end_) first_end_ = record.over;
  const bool for_good = record.over && record.over->verdict == Verdict::success;
  record_ = {record, ++revision_, grant(for_good ? kEndedRecordLease : Duration(kRecordLease)), net_.now(), call};
}

ClaimAnswered EtcdModel::claim(const ClaimKey& claim, std::int64_t lease) {
  const bool same = holder_.revision == claim.holder_revision && record_.revision == claim.record_revision;
  if (leases_.contains(lease) && (same || (bug_ == EtcdBug::claim_without_compare && holder_.lease != lease))) {
    put_holder(claim.holder, lease);
    put_record(claim.record, 0);
  }
  return {holder_.value && holder_.lease == lease, keys(true)};
}

StoreAnswered EtcdModel::store(const StoreRecord& store, int call) {
  const bool same = holder_.revision == store.fence && record_.revision == store.record_revision;
  if (same || (bug_ == EtcdBug::store_without_compare && record_.call != call)) put_record(store.record, call);
  return {record_.call == call, record_.revision, store.fence};
}

void EtcdModel::release(const ReleaseKey& release) {
  if (holder_.revision != 0 && holds(release.fence)) put_holder(release.holder, holder_.lease);
}

bool EtcdModel::leave(const LastAct& act) {
  if (holder_.revision == 0 || !holds(act.fence)) return false;
  if (act.record) put_record(*act.record, 0);
  act.record ? put_holder({}, 0) : put_holder(act.holder, holder_.lease);
  return true;
}

void EtcdModel::watch(NodeId node, std::function<void(const EtcdKeys&)> seen) {
  watches_[node] = {std::move(seen), revision_};
}

void EtcdModel::tell(NodeId node) {
  Watch& watch = watches_.at(node);
  if (watch.broken) return;
  if (!reaches(node) || net_.chance(kWatchBreaks)) return break_watch(node);
  watch.told = revision_;
  watch.last = std::max(watch.last, net_.now() + delay(node));
  net_.after(watch.last - net_.now(), [this, node, seen = keys(false)] {
    const auto found = watches_.find(node);
    if (found == watches_.end()) return;
    if (!reaches(node)) return break_watch(node);
    found->second.seen(seen);
  });
}

// A new stream tells what has happened since; if that is compacted, the key is read.
void EtcdModel::break_watch(NodeId node) {
  watches_.at(node).broken = true;
  net_.after(net_.milliseconds(kWatchBrokenMs), [this, node] {
    const auto found = watches_.find(node);
    if (found == watches_.end()) return;
    if (!reaches(node)) return break_watch(node);
    found->second.broken = false;
    if (found->second.told < holder_changed_) tell(node);
  });
}

void EtcdModel::go_down(Duration lasts) {
  down_until_ = std::max(down_until_, net_.now() + lasts);
  net_.after(lasts, [this] { extend_leases(); });
}

void EtcdModel::cut(NodeId node, Duration lasts) { cut_until_[node] = std::max(cut_until_[node], net_.now() + lasts); }

void EtcdModel::lose_data() {
  leases_.clear();
  holder_ = {};
  record_ = {};
  lease_by_fence_.clear();
  revision_ = 1;
  holder_changed_ = 0;
  for (auto& [node, watch] : watches_) watch.told = 0;
}

}  // namespace ddprun::test
