// Blocks sources for a while whose unauthenticated peers fail too often: bad handshakes, or no handshake in time; and
// more readily while all of them cost too much.
//
// A value. `now` never goes back.
#pragma once
#include <cstddef>
#include <map>
#include <set>
#include <vector>

#include "rendezvous/peer/admission.h"

namespace ddprun::rendezvous {

class FailedSources {
 public:
  explicit FailedSources(const AdmissionLimits& limits) : limits_(limits) {}

  // Each returns whether blocked() has changed.
  // `cost`: the handshake's. Of a source that is blocked already only that counts.
  bool on_failure(const PeerSource& source, TimePoint now, Duration cost = {});
  bool on_silent_close(const PeerSource& source, TimePoint now);
  bool on_success(const PeerSource& source);  // a member is there: earlier failures are forgotten
  bool unblock_expired(TimePoint now);        // sources whose time is over

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
    Duration cost;
  };
  bool too_costly(TimePoint now) const { return paid_at_ - now > limits_.cost_burst * limits_.core_part; }
  bool count(const PeerSource& source, Duration lifetime, Duration cost, TimePoint now);
  Failures* remember(const PeerSource& source, TimePoint now);
  Duration failure_lifetime() const;  // the time until one failure is forgotten

  const AdmissionLimits limits_;
  TimePoint paid_at_ = {};  // when their part of a core has paid for all failures
  std::map<PeerSource, Failures> failures_;
  std::set<PeerSource> members_;  // sources from which members have come
  std::vector<Block> blocked_;    // the first one to be unblocked comes last
};

}  // namespace ddprun::rendezvous
