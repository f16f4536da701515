#include "rendezvous/coordination/round/ledger.h"

#include <algorithm>
#include <utility>

#include "rendezvous/base/random.h"
#include "rendezvous/channel/worker_exit.h"

namespace ddprun::rendezvous {
namespace {

constexpr std::int64_t kCreditMax = 1'000'000'000;

// "1 h", "90 s"
std::string in_words(Duration time) {
  using std::chrono::seconds;
  const std::int64_t count = std::chrono::ceil<seconds>(time).count();
  for (const auto& [unit, name] : {std::pair{86'400, " d"}, {3'600, " h"}, {60, " min"}})
    if (count >= unit && count % unit == 0) return std::to_string(count / unit) + name;
  return std::to_string(count) + " s";
}

std::string count_of(int used, const RestartLimit& limit) { return std::to_string(used) + " of " + to_text(limit); }

// "step 12 of 9" and "step 7 of 9" are equal.
std::string without_digits(std::string text) {
  std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
  return text;
}

// Nobody has told anything by which it could be compared.
bool is_silent(const ChargedFailure& failure) {
  return failure.status.code != 0 && failure.last_line.empty() && !failure.reported;
}

bool about_equal(Duration a, Duration b) {
  return std::max(a, b) - std::min(a, b) <= std::max<Duration>(std::max(a, b) / 10, std::chrono::seconds(1));
}

// Empty if neither its exit code nor its class decides.
std::string why_final(const ChargedFailure& failure) {
  if (failure.kind == FailureClass::usage)
    return "exit code " + std::to_string(failure.status.code) +
           " before any progress is a usage error, which a restart cannot fix";
  if (failure.status.code == kWorkerExitUnsaved)
    return "exit code " + std::to_string(kWorkerExitUnsaved) + " means that a restart would only repeat the same";
  return {};
}

}  // namespace

Ledger::Ledger(const RestartPolicy& policy, TimePoint now, std::uint64_t jitter_seed, const LedgerRecord& record,
               Duration age)
    : policy_(policy), jitter_state_(jitter_seed), record_(record) {
  for (const Charge& charge : std::exchange(record_.charges, {}))
    charges_.push_back({charge.kind, charge.restarts, now - age - charge.age});
}

Ruling Ledger::charge_failure(const ChargedFailure& failure, TimePoint now) {
  ++changes_;
  const bool same_again = record_.last_failure == failure.status;
  const std::string same = same_again ? why_same(failure) : "";
  silent_after_ = is_silent(failure) ? std::optional(failure.ran) : std::nullopt;
  record_.repeats = same_again ? record_.repeats + 1 : 0;
  record_.last_failure = failure.status;
  record_.last_line = failure.last_line;
  record_.progressed |= failure.progressed;
  if (failure.progressed) credit(failure.ran);
  if (!failure.by_rule)
    if (std::string why = why_final(failure); !why.empty()) return end(std::move(why), true);
  if (std::string why = why_ended(failure, same, now); !why.empty()) return end(std::move(why), false);
  ++record_.counts.of(failure.kind);
  charge(failure.kind, now);
  const Pool pool = pool_of(failure.kind);
  return {now + (record_.repeats > 0 ? backoff() : Duration::zero()),
          "restart " + count_of(used(pool, now), pool.limit) + (pool.only ? " after " + name_of(*pool.only) : "")};
}

std::string Ledger::why_same(const ChargedFailure& failure) const {
  if (!failure.progressed) return "the same failure twice in a row before any progress";
  if (!failure.last_line.empty()) {
    if (record_.last_line == failure.last_line)
      return "the same failure twice in a row, with the same last line of stderr";
    if (!record_.last_line.empty() && without_digits(record_.last_line) == without_digits(failure.last_line))
      return "the same failure twice in a row, with the same last line of stderr but for numbers";
  }
  if (is_silent(failure) && silent_after_ && about_equal(*silent_after_, failure.ran))
    return "the same exit code twice in a row, at the same age and without a word on stderr";
  return {};
}

std::string Ledger::why_ended(const ChargedFailure& failure, const std::string& same, TimePoint now) const {
  if (const Pool pool = pool_of(failure.kind); pool.limit.most == 0)
    return "no restarts are allowed " +
           (pool.only ? "after " + name_of(*pool.only) + " (--restart-limits)" : std::string("(--max-restarts 0)"));
  if (!failure.by_rule) {
    if (failure.status.start_error != 0) return "it could not be started";
    if (failure.status.stuck) return "new workers would wait for the same device or file server";
    if (!same.empty()) return same;
    if (failure.cannot_begin && !record_.progressed && !policy_.limits.contains(failure.kind))
      return "it failed before any progress, and a restart would only repeat it";
  }
  return why_used_up(failure.kind, now);
}

std::string Ledger::why_used_up(FailureClass kind, TimePoint now) const {
  const Pool pool = pool_of(kind);
  if (const int spent = used(pool, now); spent >= pool.limit.most)
    return "all restarts " + (pool.only ? "after " + name_of(*pool.only) + " " : std::string()) + "are used up (" +
           count_of(spent, pool.limit) + ")";
  if (pool.only || kind != FailureClass::out_of_memory) return {};
  const Pool memory{kind, {policy_.out_of_memory_max, {}}};
  if (used(memory, now) < policy_.out_of_memory_max) return {};
  return "memory ran out before, and one restart did not help (--restart-limits out-of-memory=N allows more)";
}

void Ledger::charge_preemption() {
  ++changes_;
  ++record_.counts.preemptions;
}

void Ledger::charge_resize() {
  ++changes_;
  ++record_.counts.resizes;
}

void Ledger::learn(int round, const LearnedTimes& times) {
  const LearnedTimes before = record_.learned;
  record_.learned = learned_round_ == round ? longest(before, times) : newer(before, times);
  learned_round_ = round;
  if (record_.learned != before) ++changes_;
}

void Ledger::learn_hung_at(const std::string& place) {
  const LearnedTimes before = record_.learned;
  add_hung_at(record_.learned, place);
  if (record_.learned != before) ++changes_;
}

void Ledger::end_without_failure() {
  ++changes_;
  record_.futile = {};
}

Ruling Ledger::charge_lost_node(TimePoint now) {
  ++changes_;
  ++record_.counts.lost_nodes;
  const auto limit = policy_.limits.find(FailureClass::lost_node);
  if (limit == policy_.limits.end()) return {now};
  if (std::string why = why_used_up(FailureClass::lost_node, now); !why.empty()) return {{}, std::move(why)};
  charge(FailureClass::lost_node, now);
  return {now};
}

Ledger::Pool Ledger::pool_of(FailureClass kind) const {
  const auto own = policy_.limits.find(kind);
  return own == policy_.limits.end() ? Pool{{}, {policy_.max_restarts, {}}} : Pool{kind, own->second};
}

bool Ledger::is_in(const Pool& pool, FailureClass kind) const {
  return pool.only ? kind == *pool.only : !policy_.limits.contains(kind);
}

int Ledger::used(const Pool& pool, TimePoint now) const {
  int out = 0;
  for (const Dated& charge : charges_)
    if (is_in(pool, charge.kind) && (!pool.limit.within || now - charge.at < *pool.limit.within))
      out += charge.restarts;
  return out;
}

// Charges that can no longer count are forgotten, and those without a window need no date of their own.
void Ledger::charge(FailureClass kind, TimePoint now) {
  std::erase_if(charges_, [&](const Dated& charge) {
    const auto within = pool_of(charge.kind).limit.within;
    return within && now - charge.at >= *within;
  });
  if (!pool_of(kind).limit.within)
    for (Dated& charge : charges_)
      if (charge.kind == kind) return void(++charge.restarts);
  charges_.push_back({kind, 1, now});
}

// Each limit gets back its own oldest charges, but those within a time, which earns them back.
void Ledger::credit(Duration ran) {
  ++changes_;
  record_.progressed = true;
  if (!policy_.credit_after) return;
  record_.running += ran;
  const auto earned = static_cast<int>(std::min<std::int64_t>(record_.running / *policy_.credit_after, kCreditMax));
  record_.running %= *policy_.credit_after;
  std::map<std::optional<FailureClass>, int> left;
  for (Dated& charge : charges_) {
    const Pool pool = pool_of(charge.kind);
    int& of_pool = left.try_emplace(pool.only, pool.limit.within ? 0 : earned).first->second;
    const int back = std::min(of_pool, charge.restarts);
    charge.restarts -= back;
    of_pool -= back;
  }
  std::erase_if(charges_, [](const Dated& charge) { return charge.restarts == 0; });
}

// A job-wide verdict: this start, too, ended before any progress.
Ruling Ledger::end(std::string reason, bool final) {
  FutileStarts& futile = record_.futile;
  const bool same = futile.failure == record_.last_failure && futile.last_line == record_.last_line;
  if (record_.progressed)
    futile = {};
  else
    futile = {same ? futile.count + 1 : 1, record_.last_failure, record_.last_line};
  if (!final && futile.count >= policy_.futile_starts_max)
    return {{}, "the same failure in " + std::to_string(futile.count) + " starts in a row, before any progress", true};
  return {{}, std::move(reason), final};
}

LedgerRecord Ledger::record(TimePoint now) const {
  LedgerRecord out = record_;
  out.running = std::min<Duration>(out.running, kLimitWindowMax);
  for (const Dated& charge : charges_)
    out.charges.push_back({charge.kind, charge.restarts, std::min<Duration>(now - charge.at, kLimitWindowMax)});
  return out;
}

Duration Ledger::backoff() {
  const Duration full = policy_.backoff_first * (1 << std::min(record_.repeats - 1, 16));
  const double jitter = 0.5 + static_cast<double>(next_random(jitter_state_) >> 11) / static_cast<double>(1ull << 53);
  return std::chrono::duration_cast<Duration>(std::min(full, policy_.backoff_max) * jitter);
}

bool ended_for_good(Verdict verdict) {
  return verdict == Verdict::success || verdict == Verdict::worker_final || verdict == Verdict::stopped;
}

LedgerRecord for_next_start(LedgerRecord record, bool failed) {
  record.progressed = false;
  if (!failed) return record;
  return {.futile = std::move(record.futile),  // steps may be others then
          .excluded = std::move(record.excluded),
          .account = record.account};
}

std::string to_text(const RestartLimit& limit) {
  return std::to_string(limit.most) + (limit.within ? " in " + in_words(*limit.within) : "");
}

}  // namespace ddprun::rendezvous
