#include "rendezvous/coordination/round/excluded_hosts.h"

#include <algorithm>

#include "rendezvous/coordination/round/ledger.h"

namespace ddprun::rendezvous {

bool ExcludedHosts::note_failure(const NodeOffer& there, TimePoint now) {
  if (policy_.failures == 0) return false;
  std::deque<TimePoint>& failures = failures_[key_of(there)];
  failures.push_back(now);
  while (now - failures.front() >= policy_.within) failures.pop_front();
  if (std::ssize(failures) < policy_.failures) return false;
  exclude(there, "failures of workers there: " + to_text({policy_.failures, policy_.within}), now);
  return true;
}

void ExcludedHosts::exclude(const NodeOffer& host, std::string why, TimePoint now, std::optional<Duration> lasts) {
  excluded_[key_of(host)] = {host.name, host.host, std::move(why), now + lasts.value_or(policy_.lasts)};
  failures_.erase(key_of(host));
}

bool ExcludedHosts::forget_old(TimePoint now) {
  return std::erase_if(excluded_, [&](const auto& entry) { return entry.second.until <= now; }) > 0;
}

const std::string* ExcludedHosts::why(const NodeOffer& host) const {
  const auto found = excluded_.find(key_of(host));
  return found == excluded_.end() ? nullptr : &found->second.why;
}

Duration ExcludedHosts::left(const NodeOffer& host, TimePoint now) const {
  const auto found = excluded_.find(key_of(host));
  return found == excluded_.end() ? Duration::zero() : std::max(found->second.until - now, Duration::zero());
}

std::optional<TimePoint> ExcludedHosts::next_end() const {
  std::optional<TimePoint> next;
  for (const auto& [key, excluded] : excluded_) next = std::min(next.value_or(kNever), excluded.until);
  return next;
}

std::vector<ExcludedHost> ExcludedHosts::record(TimePoint now) const {
  std::vector<ExcludedHost> out;
  for (const auto& [key, excluded] : excluded_)
    if (excluded.until > now)
      out.push_back(
          {excluded.name, excluded.host, excluded.why, std::min<Duration>(excluded.until - now, kLimitWindowMax)});
  return out;
}

void ExcludedHosts::restore(const std::vector<ExcludedHost>& record, Duration age, TimePoint now) {
  for (const ExcludedHost& one : record)
    if (one.left > age)
      excluded_[key_of({.host = one.host, .name = one.name})] = {one.name, one.host, one.why, now + one.left - age};
}

}  // namespace ddprun::rendezvous
