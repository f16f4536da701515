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

  // Each returns whether shut_out() has changed.
  bool failed(const PeerSource& source, TimePoint now);  // no effect if it is shut out already
  bool proved(const PeerSource& source);                 // a member is there: earlier failures are forgotten
  bool let_in(TimePoint now);                            // sources whose time is over

  bool is_shut_out(const PeerSource& source) const;
  std::vector<PeerSource> shut_out() const;  // the last one to be let in comes first
  TimePoint next_deadline() const;           // of let_in(); TimePoint::max(): none

 private:
  struct Out {
    TimePoint until;
    PeerSource source;
  };
  struct Failures {
    TimePoint forgotten_at;  // when the last one is forgotten; one goes after the other
    Duration out_for;        // when it is blocked next
  };
  Failures* remember(const PeerSource& source, TimePoint now);
  Duration price() const;  // the time until one failure is forgotten

  const AdmissionLimits limits_;
  std::map<PeerSource, Failures> failures_;
  std::vector<Out> out_;  // the first one to be let in comes last
};

}  // namespace ddprun::rendezvous
