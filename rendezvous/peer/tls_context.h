// How this agent and others authenticate to each other: not at all, by a token, or by certificates.
//
// Nothing is loaded before the first use, as OpenSSL's start takes some 4 ms: call prepare() once the workers have been
// started. The module is in ../lib/ddprun, relative to the running program's folder.
//
// Not thread-safe. Must outlive its sessions.
#pragma once
#include <memory>
#include <string>

#include "rendezvous/peer/credentials.h"
#include "rendezvous/peer/tls_plugin.h"

namespace ddprun::rendezvous {

class TlsContext {
 public:
  TlsContext(Credentials credentials, std::string run_id);

  // Without credentials there is no TLS: connections are plain, and anybody may connect.
  bool plain() const { return std::holds_alternative<NoCredentials>(credentials_); }
  // Throws UsageError if a file cannot be used, Error if the module cannot. Cheap when repeated.
  void prepare();
  // Tells jobs of different credentials apart (tls_plugin.h); "plain": it has none. Calls prepare() first.
  std::string mark();
  // Calls prepare() first. Not for plain connections.
  std::unique_ptr<TlsSession> open(PeerRole role);

 private:
  Credentials credentials_;
  const std::string run_id_;
  std::unique_ptr<TlsEngine> engine_;
};

}  // namespace ddprun::rendezvous
