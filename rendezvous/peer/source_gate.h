// Keeps sources that fail too often from a listening socket: the kernel drops their packets to it, at a tenth of what
// a connection costs us that is accepted and closed; where it will not, we close them unheard.
//
// Connections that are there already are not touched. For one thread.
#pragma once
#include <sys/socket.h>

#include "rendezvous/peer/failed_sources.h"

namespace ddprun::rendezvous {

// Of an accepted connection, IPv4 or IPv6.
PeerSource source_of(const sockaddr_storage& address);

class SourceGate {
 public:
  // `listener`: open as long as we are used; not ours.
  SourceGate(int listener, const AdmissionLimits& limits) : listener_(listener), failed_(limits) {}

  // One that came before the kernel dropped them, or where it does not.
  bool turns_away(const PeerSource& source) const { return failed_.is_shut_out(source); }
  void failed(const PeerSource& source, TimePoint now);
  void proved(const PeerSource& source);
  void let_in(TimePoint now);
  TimePoint next_deadline() const { return failed_.next_deadline(); }  // of let_in()

 private:
  void tell_kernel();

  const int listener_;
  FailedSources failed_;
  std::vector<PeerSource> told_;  // to the kernel, which drops them
};

}  // namespace ddprun::rendezvous
