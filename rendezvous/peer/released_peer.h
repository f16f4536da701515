// What a PeerConnection leaves behind: an authenticated connection, and what has been read of it.
#pragma once
#include <memory>
#include <string>

#include "rendezvous/base/fd.h"
#include "rendezvous/peer/greeting.h"
#include "rendezvous/peer/tls_context.h"

namespace ddprun::rendezvous {

struct ReleasedPeer {
  NodeIdentity peer = {};
  Fd socket = {};
  std::shared_ptr<TlsContext> tls = {};      // outlives the session
  std::unique_ptr<TlsSession> session = {};  // none: plain
  std::string heard = {};                    // received, decrypted, not yet read
};

}  // namespace ddprun::rendezvous
