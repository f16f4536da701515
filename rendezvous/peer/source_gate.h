// Keeps sources that fail too often away from a listening socket: the kernel drops their packets, at a tenth of the
// cost of accepting and closing a connection; if it refuses the filter, we close their connections at once.
//
// Existing connections are not affected. For one thread.
#pragma once
#include <sys/socket.h>

#include "rendezvous/peer/failed_sources.h"

namespace ddprun::rendezvous {

// The source of an accepted connection, IPv4 or IPv6.
PeerSource source_of(const sockaddr_storage& address);

class SourceGate {
 public:
  // `listener`: not owned, and open as long as this object exists.
  SourceGate(int listener, const AdmissionLimits& limits) : listener_(listener), failed_(limits) {}

  // Whether to close a connection that came before the kernel's filter, or without one.
  bool turns_away(const PeerSource& source) const { return failed_.is_shut_out(source); }
  void failed(const PeerSource& source, TimePoint now);
  void proved(const PeerSource& source);
  void let_in(TimePoint now);
  TimePoint next_deadline() const { return failed_.next_deadline(); }  // of let_in()

 private:
  void tell_kernel();

  const int listener_;
  FailedSources failed_;
  std::vector<PeerSource> told_;  // sources in the kernel's filter
};

}  // namespace ddprun::rendezvous
