// Decides when a refused peer is logged: once a minute for each source, so that nobody can fill the disk.
//
// A value. It remembers `refused_sources_max` sources; others are not logged until one of those is a minute old.
#pragma once
#include <map>
#include <optional>
#include <string>

#include "rendezvous/peer/admission.h"

namespace ddprun::rendezvous {

class RefusalLog {
 public:
  explicit RefusalLog(const AdmissionLimits& limits) : limits_(limits) {}

  // The line, if any: "refused 10.0.0.7: it presented no token, and 41 times more since the last such line". `now`
  // never goes back.
  std::optional<std::string> refused(const PeerSource& source, const std::string& address, const std::string& why,
                                     TimePoint now);

 private:
  struct Logged {
    TimePoint last;
    std::size_t suppressed = 0;  // refusals since then
  };
  bool make_room(TimePoint now);

  const AdmissionLimits limits_;
  std::map<PeerSource, Logged> logged_;
};

}  // namespace ddprun::rendezvous
