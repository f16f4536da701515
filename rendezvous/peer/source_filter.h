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

class SourceFilter {
 public:
  // `listener`: not owned, and open as long as this object exists.
  SourceFilter(int listener, const AdmissionLimits& limits) : listener_(listener), failed_sources_(limits) {}

  // Whether to close a connection that came before the kernel's filter, or without one.
  bool blocks(const PeerSource& source) const { return failed_sources_.is_blocked(source); }
  void on_turned_away() { update_soon(); }  // such a connection
  void on_failure(const PeerSource& source, TimePoint now, Duration cost = {});
  void on_silent_close(const PeerSource& source, TimePoint now);
  void on_success(const PeerSource& source);
  void unblock_expired(TimePoint now);
  TimePoint next_deadline() const { return failed_sources_.next_deadline(); }  // of unblock_expired()

 private:
  void update_soon();
  void update_kernel_filter();
  bool attach();

  const int listener_;
  FailedSources failed_sources_;
  std::vector<PeerSource> filtered_;  // sources in the kernel's filter
  std::size_t not_filtered_ = 0;      // blocked sources and their connections, since the last update
};

}  // namespace ddprun::rendezvous
