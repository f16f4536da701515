// How this agent proves itself to other agents, and they to it: not at all, by a token, or by certificates.
//
// Nothing is loaded or made before the first use, as OpenSSL takes some 4 ms to begin with: call prepare() once the
// workers are on their way. The module lies in ../lib/ddprun beside the folder of the program that runs.
//
// Not thread-safe. Sessions may not outlive it.
#pragma once
#include <memory>
#include <string>

#include "rendezvous/peer/credentials.h"
#include "rendezvous/peer/tls_plugin.h"

namespace ddprun::rendezvous {

class TlsContext {
 public:
  TlsContext(Credentials credentials, std::string run_id);

  // Without credentials there is no TLS: connections are plain, and anybody may come.
  bool plain() const { return std::holds_alternative<NoCredentials>(credentials_); }
  // Throws UsageError where a file cannot be used, Error where the module cannot. Cheap when repeated.
  void prepare();
  // Prepares what is not prepared. Not for a plain one.
  std::unique_ptr<TlsSession> open(PeerRole role);

 private:
  Credentials credentials_;
  const std::string run_id_;
  std::unique_ptr<TlsEngine> engine_;
};

}  // namespace ddprun::rendezvous
