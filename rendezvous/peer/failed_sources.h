// From where unauthenticated peers fail too often to be heard for a while: bad handshakes, and places held for nothing.
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

  // Each says whether shut_out() is another one now.
  bool failed(const PeerSource& source, TimePoint now);  // of no effect where it is shut out already
  bool proved(const PeerSource& source);                 // a member is there: what failed before is forgotten
  bool let_in(TimePoint now);                            // those whose time is over

  bool is_shut_out(const PeerSource& source) const;
  std::vector<PeerSource> shut_out() const;  // who is let in last comes first
  TimePoint next_deadline() const;           // of let_in(); TimePoint::max(): none

 private:
  struct Out {
    TimePoint until;
    PeerSource source;
  };
  struct Failures {
    TimePoint forgotten_at;  // the last one of them, one after the other
    Duration out_for;        // the next time
  };
  Failures* remember(const PeerSource& source, TimePoint now);
  Duration price() const;  // of a failure, in time

  const AdmissionLimits limits_;
  std::map<PeerSource, Failures> failures_;
  std::vector<Out> out_;  // who is let in first is the last one
};

}  // namespace ddprun::rendezvous
