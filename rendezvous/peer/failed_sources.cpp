#include "rendezvous/peer/failed_sources.h"

#include <algorithm>
#include <cstdint>
#include <ratio>

namespace ddprun::rendezvous {
namespace {

constexpr std::chrono::seconds kDebtMax{30};  // of time: what a flood has cost is forgotten so long after it
using UnblockTick = std::chrono::duration<std::int64_t, std::deci>;  // many are unblocked together

}  // namespace

Duration FailedSources::failure_lifetime() const {
  return Duration(std::chrono::seconds(1)) / static_cast<Duration::rep>(limits_.failures_per_source_per_second);
}

// A new source's failures begin now; nullptr if too many are remembered.
FailedSources::Failures* FailedSources::remember(const PeerSource& source, TimePoint now) {
  if (!failures_.contains(source) && failures_.size() >= limits_.failed_sources_max)
    std::erase_if(failures_, [&](const auto& one) { return one.second.forgotten_at <= now; });
  if (!failures_.contains(source) && failures_.size() >= limits_.failed_sources_max) return nullptr;
  Failures& failures = failures_.try_emplace(source).first->second;
  if (failures.forgotten_at <= now) failures = {now, limits_.source_block_time, {}};
  return &failures;
}

bool FailedSources::on_failure(const PeerSource& source, TimePoint now, Duration cost) {
  return count(source, failure_lifetime(), cost + limits_.connection_cost, now);
}

bool FailedSources::on_silent_close(const PeerSource& source, TimePoint now) {
  return count(source, failure_lifetime() / limits_.silent_per_failure, limits_.connection_cost, now);
}

bool FailedSources::count(const PeerSource& source, Duration lifetime, Duration cost, TimePoint now) {
  paid_at_ = std::min(std::max(paid_at_, now) + cost * limits_.core_part, now + kDebtMax);
  if (is_blocked(source)) return false;
  Failures* const failures = remember(source, now);
  if (!failures || blocked_.size() >= limits_.failed_sources_max) return false;
  failures->forgotten_at += lifetime;
  failures->cost += cost;
  const auto before_last = static_cast<Duration::rep>(limits_.failures_per_source_max) - 1;
  const bool too_many = failures->forgotten_at - now > failure_lifetime() * before_last;
  const bool too_dear = too_costly(now) && failures->cost >= limits_.source_cost_max && !members_.contains(source);
  if (!too_many && !too_dear) return false;
  const Duration time = too_dear ? limits_.source_block_time_max : failures->next_block_time;
  const Block block{std::chrono::ceil<UnblockTick>(now + time), source};
  const auto ends_later = [](const Block& a, const Block& b) { return a.until > b.until; };
  blocked_.insert(std::upper_bound(blocked_.begin(), blocked_.end(), block, ends_later), block);
  failures->next_block_time = std::min(failures->next_block_time * 2, limits_.source_block_time_max);
  return true;
}

bool FailedSources::on_success(const PeerSource& source) {
  failures_.erase(source);
  if (members_.size() < limits_.failed_sources_max) members_.insert(source);
  return std::erase_if(blocked_, [&](const Block& block) { return block.source == source; }) > 0;
}

bool FailedSources::unblock_expired(TimePoint now) {
  const std::size_t before = blocked_.size();
  while (!blocked_.empty() && blocked_.back().until <= now) blocked_.pop_back();
  return blocked_.size() != before;
}

bool FailedSources::is_blocked(const PeerSource& source) const {
  return std::any_of(blocked_.begin(), blocked_.end(), [&](const Block& block) { return block.source == source; });
}

std::vector<PeerSource> FailedSources::blocked() const {
  std::vector<PeerSource> sources;
  for (const Block& block : blocked_) sources.push_back(block.source);
  return sources;
}

TimePoint FailedSources::next_deadline() const { return blocked_.empty() ? TimePoint::max() : blocked_.back().until; }

}  // namespace ddprun::rendezvous
