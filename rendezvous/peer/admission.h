// How much of a listening agent's memory and time unauthenticated peers may take.
//
// A value. Every unauthenticated peer that connects is accepted; if that makes too many, the oldest one is evicted: of
// the same source if that alone has too many, else of the source that has most. If the newest one were refused instead,
// an attacker that silently holds all places would keep every member out until the deadline; a member needs its place
// for two messages only, so the oldest one is hardly ever a member. A source is an IPv4 address, or an IPv6 network of
// 64 bits, as one machine can have all addresses of it.
//
// Ids grow: a later peer has a higher one.
#pragma once
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "rendezvous/base/time.h"

namespace ddprun::rendezvous {

struct AdmissionLimits {
  // A thousand nodes may start at the same moment. Each takes some 50 KiB during its handshake.
  std::size_t unauthenticated_max = 1024;
  // Agents of one machine, or nodes behind one router, that start together.
  std::size_t unauthenticated_per_source_max = 128;
  // From the connection to the last byte of the greeting: long enough for a machine that swaps, short for a slow-loris.
  Duration authenticate_within = std::chrono::seconds(5);
  // A handshake by token takes some 600 bytes, one by certificates the size of their chain.
  std::size_t unauthenticated_bytes_max = 16 << 10;
  // A source may have this many failures at once, and this many a second after that, until one of its peers
  // authenticates. Beyond that it is blocked for a while; a member at the same address then gets in by chance, if it
  // tries again.
  std::size_t failures_per_source_max = 256;
  std::size_t failures_per_source_per_second = 4;
  // A peer that closes without a byte, such as a probe, counts as a part of a failure.
  int silent_per_failure = 16;
  // Failures of all sources together may cost us this part of a core, after a burst. Beyond that a source from which no
  // member has come is blocked once its own have cost so much, for the longest time.
  int core_part = 25;
  Duration cost_burst = std::chrono::milliseconds(250);
  Duration source_cost_max = std::chrono::microseconds(200);
  // Of a connection, besides its handshake.
  Duration connection_cost = std::chrono::microseconds(20);
  // How long it is blocked the first time, then twice as long each time, until its failures are forgotten. The maximum
  // is what a member with the attacker's address may have to wait.
  Duration source_block_time = std::chrono::seconds(1);
  Duration source_block_time_max = std::chrono::seconds(8);
  // Failures are remembered for this many sources.
  std::size_t failed_sources_max = 4096;
  // "refused" is logged once in this time for each source, and for this many sources.
  Duration refusal_log_interval = std::chrono::minutes(1);
  std::size_t refused_sources_max = 256;
};

struct PeerSource {
  std::array<std::uint8_t, 16> network{};
  bool operator==(const PeerSource&) const = default;
  bool operator<(const PeerSource& other) const { return network < other.network; }
  bool is_ipv4() const;
};

// An IPv6 address, or an IPv4 one as IPv6 writes it (::ffff:10.0.0.7).
PeerSource source_of(const std::array<std::uint8_t, 16>& address);

class Admission {
 public:
  using PeerId = std::uint64_t;
  explicit Admission(const AdmissionLimits& limits) : limits_(limits) {}

  // Returns the peer to evict for this one, if any; that is no longer counted.
  std::optional<PeerId> add(PeerId id, const PeerSource& source);
  // The peer has authenticated, or is gone. Does nothing for an unknown id.
  void remove(PeerId id);
  std::size_t unauthenticated() const { return source_of_.size(); }

 private:
  using Peers = std::set<PeerId>;
  std::optional<PeerId> peer_to_evict(const PeerSource& newcomer) const;

  const AdmissionLimits limits_;
  std::map<PeerSource, Peers> peers_by_source_;
  std::map<PeerId, PeerSource> source_of_;
};

}  // namespace ddprun::rendezvous
