// What PeerConnection::release() returns: an authenticated connection, and the bytes already read from it.
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
  std::unique_ptr<TlsSession> session = {};  // empty: plain
  std::string received = {};                 // received and decrypted, not yet used
};

}  // namespace ddprun::rendezvous
