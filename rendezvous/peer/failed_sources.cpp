#include "rendezvous/peer/failed_sources.h"

#include <algorithm>

namespace ddprun::rendezvous {

Duration FailedSources::price() const {
  return Duration(std::chrono::seconds(1)) / static_cast<Duration::rep>(limits_.failures_of_a_source_a_second);
}

// A new source's failures begin now; nullptr if too many are remembered.
FailedSources::Failures* FailedSources::remember(const PeerSource& source, TimePoint now) {
  if (!failures_.contains(source) && failures_.size() >= limits_.failed_sources_max)
    std::erase_if(failures_, [&](const auto& one) { return one.second.forgotten_at <= now; });
  if (!failures_.contains(source) && failures_.size() >= limits_.failed_sources_max) return nullptr;
  Failures& failures = failures_.try_emplace(source).first->second;
  if (failures.forgotten_at <= now) failures = {now, limits_.source_is_out_for};
  return &failures;
}

bool FailedSources::failed(const PeerSource& source, TimePoint now) {
  if (is_shut_out(source)) return false;
  Failures* const failures = remember(source, now);
  if (!failures) return false;
  failures->forgotten_at += price();
  const auto before_the_last = static_cast<Duration::rep>(limits_.failures_of_a_source_max) - 1;
  if (failures->forgotten_at - now <= price() * before_the_last) return false;
  const Out out{now + failures->out_for, source};
  const auto lets_in_later = [](const Out& a, const Out& b) { return a.until > b.until; };
  out_.insert(std::upper_bound(out_.begin(), out_.end(), out, lets_in_later), out);
  failures->out_for = std::min(failures->out_for * 2, limits_.source_is_out_for_max);
  return true;
}

bool FailedSources::proved(const PeerSource& source) {
  failures_.erase(source);
  return std::erase_if(out_, [&](const Out& out) { return out.source == source; }) > 0;
}

bool FailedSources::let_in(TimePoint now) {
  const std::size_t before = out_.size();
  while (!out_.empty() && out_.back().until <= now) out_.pop_back();
  return out_.size() != before;
}

bool FailedSources::is_shut_out(const PeerSource& source) const {
  return std::any_of(out_.begin(), out_.end(), [&](const Out& out) { return out.source == source; });
}

std::vector<PeerSource> FailedSources::shut_out() const {
  std::vector<PeerSource> sources;
  for (const Out& out : out_) sources.push_back(out.source);
  return sources;
}

TimePoint FailedSources::next_deadline() const { return out_.empty() ? TimePoint::max() : out_.back().until; }

}  // namespace ddprun::rendezvous
