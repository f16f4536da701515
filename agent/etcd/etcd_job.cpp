#include "agent/etcd/etcd_job.h"

#include <sys/random.h>

#include <algorithm>
#include <utility>

#include <asio/post.hpp>

#include "rendezvous/coordination/round/ledger.h"

namespace ddprun::agent {
namespace {

using namespace rendezvous;

constexpr std::chrono::seconds kEndedLease{60};        // of the record of a job that has ended for good
constexpr std::chrono::hours kKeepEvery{1};            // of a record's lease
constexpr std::chrono::minutes kWatchSilence{15};      // etcd reports progress every ten minutes
constexpr std::chrono::milliseconds kWatchPause{100};  // before a watch begins again; doubled, up to
constexpr std::chrono::seconds kWatchPauseMost{2};
constexpr int kRecordTries = 3;

// Whoever draws the same one of 2^62 loses a claim.
std::int64_t new_lease() {
  std::uint64_t number = 0;
  [[maybe_unused]] const ssize_t got = getrandom(&number, sizeof number, 0);
  return static_cast<std::int64_t>(number >> 2) + 1;
}

template <class Value, class Decode>
std::optional<Value> decoded(const EtcdValue* value, Decode decode) {
  if (!value || value->erased) return {};
  try {
    return decode(value->value);
  } catch (const BadMessage& bad) {
    throw BadMessage("the key " + value->key + " has an unknown value: " + bad.what());
  }
}

std::int64_t revision_of(const EtcdValue* value) { return value && !value->erased ? value->revision : 0; }

EtcdKeys read_holder_key(const EtcdAnswer& answer, const std::string& key) {
  const EtcdValue* value = answer.find(key);
  EtcdKeys out{.revision = answer.revision, .holder_revision = revision_of(value)};
  out.holder = decoded<EtcdHolder>(value, decode_holder);
  return out;
}

}  // namespace

EtcdJobKeys keys_of_job(const std::string& prefix, const std::string& run_id) { return {prefix + "/" + run_id + "/"}; }

EtcdKeys read_keys(const EtcdAnswer& answer, const EtcdJobKeys& keys) {
  EtcdKeys out = read_holder_key(answer, keys.holder);
  const EtcdValue* record = answer.find(keys.record);
  out.record_revision = revision_of(record);
  out.record =
      decoded<EtcdRecord>(record, [](const std::string& text) { return decode_record(text, WallClock::now()); });
  return out;
}

EtcdJob::EtcdJob(asio::io_context& io, std::shared_ptr<const EtcdAccess> access, const std::string& run_id, Hooks hooks)
    : io_(io),
      access_(std::move(access)),
      keys_(keys_of_job(access_->prefix, run_id)),
      hooks_(std::move(hooks)),
      client_(io, access_, keys_.all, hooks_.say),
      watch_timer_(io),
      end_limit_(io) {}

// Whether etcd has carried it out.
bool EtcdJob::take(const EtcdResult& result) {
  if (result.answer) hooks_.on_answer();
  if (!result.answer) hooks_.on_trouble(result.refusal.why, result.refusal.lasting);
  return result.answer.has_value();
}

// The lease, too: where etcd was restored from a backup, another key may get the same revision.
EtcdCompare EtcdJob::fenced(std::int64_t fence) const { return {keys_.holder, fence, fence == 0 ? 0 : own_lease_}; }

bool EtcdJob::is_own(const EtcdValue* holder) const {
  return holder && std::find(leases_.begin(), leases_.end(), holder->lease) != leases_.end();
}

// Empty: a value cannot be read.
std::optional<EtcdKeys> EtcdJob::take_keys(const EtcdAnswer& answer) {
  if (const EtcdValue* holder = answer.find(keys_.holder); is_own(holder)) own_lease_ = holder->lease;
  const EtcdValue* record = answer.find(keys_.record);
  record_revision_ = revision_of(record);
  if (const std::int64_t lease = record ? record->lease : 0; lease != record_lease_) {
    record_lease_ = lease;
    record_lease_kept_ = {};
  }
  try {
    return read_keys(answer, keys_);
  } catch (const BadMessage& bad) {
    hooks_.on_trouble(bad.what(), true);
    return {};
  }
}

void EtcdJob::read(const Done<KeysRead>& done) {
  client_.request(transaction({.read = {keys_.holder, keys_.record}}), {}, [this, done](const EtcdResult& result) {
    if (!take(result)) return done({});
    const auto keys = take_keys(*result.answer);
    if (!keys) return done({});
    if (!client_.watches_well()) watch_from(keys->revision + 1);
    done(KeysRead{*keys});
  });
}

// A lease of a claim without an answer stays until the next one: the claim may have been carried out.
void EtcdJob::claim(const ClaimKey& claim, const Done<ClaimAnswered>& done) {
  with_record_lease(claim.record, [this, claim, done](std::int64_t record_lease) {
    record_lease ? put_claim(claim, record_lease, done) : done({});
  });
}

void EtcdJob::put_claim(const ClaimKey& claim, std::int64_t record_lease, const Done<ClaimAnswered>& done) {
  grant(kEtcdKeyLease, [this, claim, record_lease, done](std::int64_t lease) {
    if (!lease) return done({});
    leases_.push_back(lease);
    const EtcdTransaction put{
        .compares = {{keys_.holder, claim.holder_revision}, {keys_.record, claim.record_revision}},
        .puts = {{keys_.holder, encode(claim.holder), lease},
                 {keys_.record, encode(claim.record, WallClock::now()), record_lease}},
        .read_else = {keys_.holder, keys_.record}};
    client_.request(transaction(put), {}, [this, claim, lease, record_lease, done](const EtcdResult& result) {
      done(take_claim(claim, lease, record_lease, result));
    });
  });
}

// It is won, too, if an earlier try of its request was carried out: then the key has its lease.
std::optional<ClaimAnswered> EtcdJob::take_claim(const ClaimKey& claim, std::int64_t lease, std::int64_t record_lease,
                                                 const EtcdResult& result) {
  if (!take(result)) {
    if (result.refusal.no_lease) record_lease_ = 0;
    return {};
  }
  ClaimAnswered out{.won = true};
  if (result.answer->succeeded) {
    const std::int64_t revision = result.answer->revision;
    out.keys = {revision, claim.holder, revision, claim.record, revision};
    own_lease_ = lease;
    record_written(revision, record_lease);
  } else {
    auto keys = take_keys(*result.answer);
    if (!keys) return {};
    const EtcdValue* holder = result.answer->find(keys_.holder);
    out = {holder && holder->lease == lease, std::move(*keys)};
    if (record_lease_ != record_lease) client_.request(revoke_lease(record_lease), {}, [](const EtcdResult&) {});
  }
  revoke_leases_but(own_lease_);
  return out;
}

void EtcdJob::renew(std::int64_t fence, const Done<RenewalAnswered>& done) {
  keep_record_lease(Clock::now());
  client_.request(keep_lease(own_lease_), {}, [this, fence, done](const EtcdResult& result) {
    if (!take(result)) return done({});
    if (result.answer->lasts == 0) return done(RenewalAnswered{.sent_at = result.sent_at});
    read_fence(fence, result.sent_at, done);
  });
}

// A transaction that only compares is not linearizable: a member without the others would answer it.
void EtcdJob::read_fence(std::int64_t fence, TimePoint sent_at, const Done<RenewalAnswered>& done) {
  const EtcdTransaction compare{.compares = {fenced(fence)}, .read = {keys_.holder}};
  client_.request(transaction(compare), {}, [this, sent_at, done](const EtcdResult& result) {
    if (!take(result)) return done({});
    done(RenewalAnswered{sent_at, result.answer->succeeded});
  });
}

void EtcdJob::store(const StoreRecord& store, const Done<StoreAnswered>& done) {
  with_record_lease(store.record, [this, store, done](std::int64_t lease) {
    if (!lease) return done({});
    const std::int64_t revision = store.fence == 0 ? store.record_revision : record_revision_;
    put_record({store.fence, revision, lease, encode(store.record, WallClock::now())}, done);
  });
}

// It compares the record, too: a try that was given up may be carried out after a later write. If one of its own tries
// was carried out without an answer, it writes the same again.
void EtcdJob::put_record(RecordWrite write, const Done<StoreAnswered>& done) {
  const EtcdTransaction put{.compares = {fenced(write.fence), {keys_.record, write.revision}},
                            .puts = {{keys_.record, write.value, write.lease}},
                            .read_else = {keys_.holder, keys_.record}};
  client_.request(transaction(put), {}, [this, write = std::move(write), done](const EtcdResult& result) {
    if (take(result)) return take_stored(write, *result.answer, done);
    if (result.refusal.no_lease) record_lease_ = 0;
    done({});
  });
}

void EtcdJob::take_stored(RecordWrite write, const EtcdAnswer& answer, const Done<StoreAnswered>& done) {
  if (answer.succeeded) {
    record_written(answer.revision, write.lease);
    return done(StoreAnswered{true, answer.revision, write.fence});
  }
  const auto keys = take_keys(answer);
  if (!keys) return done({});
  if (keys->holder_revision != write.fence || write.fence == 0) return done(StoreAnswered{.fence = write.fence});
  write.revision = record_revision_;
  if (++write.tries == kRecordTries) return done({});
  put_record(std::move(write), done);
}

void EtcdJob::release(const ReleaseKey& release) {
  EtcdHolder holder = release.holder;
  holder.released = true;
  const EtcdTransaction put{.compares = {fenced(release.fence)}, .puts = {{keys_.holder, encode(holder), own_lease_}}};
  client_.request(transaction(put), {}, [this](const EtcdResult& result) { take(result); });
}

void EtcdJob::end(const LastAct& act, Duration within, std::function<void()> done) {
  const auto finish = [once = std::make_shared<std::function<void()>>(std::move(done))](const auto&...) {
    if (*once) std::exchange(*once, {})();
  };
  end_limit_.expires_after(within);
  end_limit_.async_wait([finish, alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) finish();
  });
  EtcdTransaction last{.compares = {fenced(act.fence)}};
  if (!act.record) {
    last.puts = {{keys_.holder, encode(act.holder), own_lease_}};
    return client_.request(transaction(last), within, finish);
  }
  with_record_lease(*act.record, [this, act, last, within, finish](std::int64_t lease) mutable {
    if (!lease) return finish();
    last.puts = {{keys_.record, encode(*act.record, WallClock::now()), lease}};
    last.erased = {keys_.holder};
    const std::int64_t before = std::exchange(record_lease_, lease);
    client_.request(transaction(last), within,
                    [this, last, before, lease, within, finish](const EtcdResult& got) mutable {
                      if (!got.answer) return finish();
                      if (!got.answer->succeeded) {  // the key's lease may have expired, and nobody has it
                        last.compares = {{keys_.holder, 0}, {keys_.record, record_revision_}};
                        return client_.request(transaction(last), within, finish);
                      }
                      if (before == 0 || before == lease) return finish();
                      client_.request(revoke_lease(before), within, finish);  // nothing is left that has it
                    });
  });
}

// A lease that is to be kept is `keep` long: another one, such as that of a job that had ended, is replaced.
void EtcdJob::with_record_lease(const EtcdRecord& record, const LeaseDone& done) {
  if (record.over && ended_for_good(record.over->verdict)) return grant(kEndedLease, done);
  if (!record_lease_) return grant(access_->keep, done);
  client_.request(keep_lease(record_lease_), {}, [this, done, lease = record_lease_](const EtcdResult& result) {
    if (!take(result)) return done(0);
    result.answer->lasts == access_->keep.count() ? done(lease) : grant(access_->keep, done);
  });
}

// While nothing is written.
void EtcdJob::keep_record_lease(TimePoint now) {
  if (!record_lease_ || now - record_lease_kept_ < std::min<Duration>(kKeepEvery, access_->keep / 3)) return;
  record_lease_kept_ = now;
  client_.request(keep_lease(record_lease_), {}, [this](const EtcdResult& result) {
    if (!take(result)) record_lease_kept_ = {};
  });
}

void EtcdJob::record_written(std::int64_t revision, std::int64_t lease) {
  record_revision_ = revision;
  record_lease_ = lease;
  record_lease_kept_ = Clock::now();
}

void EtcdJob::grant(std::chrono::seconds lasts, const LeaseDone& done) {
  const std::int64_t lease = new_lease();
  client_.request(grant_lease(lease, lasts), {}, [this, lease, done](const EtcdResult& result) {
    done(result.refusal.lease_exists || take(result) ? lease : 0);
  });
}

void EtcdJob::revoke_leases_but(std::int64_t held) {
  for (const std::int64_t lease : std::exchange(leases_, {})) {
    if (lease == held)
      leases_.push_back(lease);
    else
      client_.request(revoke_lease(lease), {}, [](const EtcdResult&) {});
  }
}

void EtcdJob::watch_from(std::int64_t revision) {
  watch_from_ = revision;
  client_.watch(
      watch_key(keys_.holder, revision), [this](const EtcdAnswer& line) { take_line(line); },
      [this](const EtcdResult& ended) {
        if (ended.refusal.lasting) hooks_.on_trouble(ended.refusal.why, true);
        watch_again();
      });
  after(kWatchSilence, [this] { watch_from(watch_from_); });
}

void EtcdJob::watch_again() {
  watch_pause_ = std::clamp<Duration>(2 * watch_pause_, kWatchPause, kWatchPauseMost);
  after(watch_pause_, [this] { watch_from(watch_from_); });
}

void EtcdJob::after(Duration time, std::function<void()> then) {
  watch_timer_.expires_after(time);
  watch_timer_.async_wait([then = std::move(then), alive = std::weak_ptr(alive_)](const std::error_code& error) {
    if (!error && !alive.expired()) then();
  });
}

void EtcdJob::take_line(const EtcdAnswer& line) {
  if (line.canceled) return read_holder();
  after(kWatchSilence, [this] { watch_from(watch_from_); });
  const EtcdValue* value = line.find(keys_.holder);
  if (!value) return;
  watch_pause_ = {};
  tell_holder(line, value->revision);
}

// What the watch has missed, as etcd has compacted it.
void EtcdJob::read_holder() {
  client_.stop_watch();
  client_.request(transaction({.read = {keys_.holder}}), {}, [this](const EtcdResult& result) {
    watch_again();
    if (take(result)) tell_holder(*result.answer, result.answer->revision);
  });
}

// An event's own revision counts: that of its answer may be later than events that are still to come.
void EtcdJob::tell_holder(const EtcdAnswer& of, std::int64_t at_revision) {
  watch_from_ = at_revision + 1;
  try {
    EtcdKeys seen = read_holder_key(of, keys_.holder);
    seen.revision = at_revision;
    hooks_.on_holder(seen);
  } catch (const BadMessage& bad) {
    hooks_.on_trouble(bad.what(), true);
  }
}

}  // namespace ddprun::agent
