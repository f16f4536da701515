// Blocks sources for a while whose unauthenticated peers fail too often: bad handshakes, or no handshake in time.
//
// A value. `now` never goes back.
#pragma once
#include <cstddef>
#include <map>
#include <vector>

#include "rendezvous/peer/admission.h"

namespace ddprun::rendezvous {

class FailedSources {
 public:
  explicit FailedSources(const AdmissionLimits& limits) : limits_(limits) {}

  // Each returns whether blocked() has changed.
  bool on_failure(const PeerSource& source, TimePoint now);  // no effect if it is blocked already
  bool on_success(const PeerSource& source);                 // a member is there: earlier failures are forgotten
  bool unblock_expired(TimePoint now);                       // sources whose time is over

  bool is_blocked(const PeerSource& source) const;
  std::vector<PeerSource> blocked() const;  // the last one to be unblocked comes first
  TimePoint next_deadline() const;          // of unblock_expired(); TimePoint::max(): none

 private:
  struct Block {
    TimePoint until;
    PeerSource source;
  };
  struct Failures {
    TimePoint forgotten_at;    // when the last one is forgotten; one goes after the other
    Duration next_block_time;  // when it is blocked next
  };
  Failures* remember(const PeerSource& source, TimePoint now);
  Duration failure_lifetime() const;  // the time until one failure is forgotten

  const AdmissionLimits limits_;
  std::map<PeerSource, Failures> failures_;
  std::vector<Block> blocked_;  // the first one to be unblocked comes last
};

}  // namespace ddprun::rendezvous
