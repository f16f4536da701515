#include "rendezvous/peer/admission.h"

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun {
namespace {

constexpr std::array<std::uint8_t, 12> kIpv4{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
constexpr std::size_t kNetworkBytes = 8;

}  // namespace

bool PeerSource::is_ipv4() const { return std::equal(kIpv4.begin(), kIpv4.end(), network.begin()); }

PeerSource source_of(const std::array<std::uint8_t, 16>& address) {
  PeerSource source{address};
  if (!source.is_ipv4()) std::fill(source.network.begin() + kNetworkBytes, source.network.end(), std::uint8_t{0});
  return source;
}

std::optional<Admission::StrangerId> Admission::arrived(StrangerId id, const PeerSource& source) {
  check(sources_by_stranger_.empty() || sources_by_stranger_.rbegin()->first < id, "that the strangers' ids grow");
  const std::optional<StrangerId> dropped = in_excess(source);
  if (dropped) settled(*dropped);
  strangers_by_source_[source].insert(id);
  sources_by_stranger_.emplace(id, source);
  return dropped;
}

void Admission::settled(StrangerId id) {
  const auto found = sources_by_stranger_.find(id);
  if (found == sources_by_stranger_.end()) return;
  const auto source = strangers_by_source_.find(found->second);
  source->second.erase(id);
  if (source->second.empty()) strangers_by_source_.erase(source);
  sources_by_stranger_.erase(found);
}

std::optional<Admission::StrangerId> Admission::in_excess(const PeerSource& newcomer) const {
  const auto same = strangers_by_source_.find(newcomer);
  if (same != strangers_by_source_.end() && same->second.size() >= limits_.strangers_of_a_source_max)
    return *same->second.begin();
  if (strangers() < limits_.strangers_max || strangers() == 0) return {};
  const auto worse = [](const auto& a, const auto& b) {  // of equals the one whose oldest is older
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return *a.second.begin() > *b.second.begin();
  };
  return *std::max_element(strangers_by_source_.begin(), strangers_by_source_.end(), worse)->second.begin();
}

}  // namespace ddprun
