#include "rendezvous/peer/admission.h"

#include <algorithm>

#include "rendezvous/base/error.h"

namespace ddprun::rendezvous {
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

std::optional<Admission::PeerId> Admission::add(PeerId id, const PeerSource& source) {
  check(source_of_.empty() || source_of_.rbegin()->first < id, "the ids of unauthenticated peers grow");
  const std::optional<PeerId> evicted = peer_to_evict(source);
  if (evicted) remove(*evicted);
  peers_by_source_[source].insert(id);
  source_of_.emplace(id, source);
  return evicted;
}

void Admission::remove(PeerId id) {
  const auto found = source_of_.find(id);
  if (found == source_of_.end()) return;
  const auto source = peers_by_source_.find(found->second);
  source->second.erase(id);
  if (source->second.empty()) peers_by_source_.erase(source);
  source_of_.erase(found);
}

std::optional<Admission::PeerId> Admission::peer_to_evict(const PeerSource& newcomer) const {
  const auto same = peers_by_source_.find(newcomer);
  if (same != peers_by_source_.end() && same->second.size() >= limits_.unauthenticated_per_source_max)
    return *same->second.begin();
  if (unauthenticated() < limits_.unauthenticated_max || unauthenticated() == 0) return {};
  const auto worse = [](const auto& a, const auto& b) {  // of equals, the one with the older oldest peer
    if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
    return *a.second.begin() > *b.second.begin();
  };
  return *std::max_element(peers_by_source_.begin(), peers_by_source_.end(), worse)->second.begin();
}

}  // namespace ddprun::rendezvous
