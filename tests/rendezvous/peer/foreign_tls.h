// A TLS peer that is not ours: OpenSSL itself, set up by a test as it likes, with the interface of a session of ours.
#pragma once
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "rendezvous/peer/tls_plugin.h"

namespace ddprun::test {

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using ForeignContext = std::unique_ptr<SSL_CTX, FreeContext>;
ForeignContext foreign_context();  // all of OpenSSL's defaults, verifying nobody

class ForeignSession : public rendezvous::TlsSession {
 public:
  ForeignSession(SSL_CTX* context, rendezvous::PeerRole role);
  ~ForeignSession() override;
  SSL* native() { return ssl_; }

  void take_in(std::string_view received) override;
  std::size_t take_out(char* to, std::size_t size) override;
  rendezvous::TlsResult handshake() override;
  rendezvous::TlsResult read(char* to, std::size_t size, std::size_t& count) override;
  rendezvous::TlsResult write(std::string_view bytes) override;
  void write_close_notify() override;
  const char* why() const override { return ""; }

 private:
  rendezvous::TlsResult judge(int returned);
  SSL* ssl_;
};

// What happened between two sessions that were led to each other.
struct Meeting {
  rendezvous::TlsResult server = rendezvous::TlsResult::need_input, client = rendezvous::TlsResult::need_input;
  std::string from_server = {}, from_client = {};  // every byte
  bool good() const { return server == rendezvous::TlsResult::done && client == rendezvous::TlsResult::done; }
};
// Until nobody has anything to say. `piece`: at most so many bytes at a time.
Meeting meet(rendezvous::TlsSession& server, rendezvous::TlsSession& client, std::size_t piece = 1 << 20);

std::string all_output(rendezvous::TlsSession& session);
// What the other side reads of a text; empty where it reads nothing.
std::string passed_on(rendezvous::TlsSession& from, rendezvous::TlsSession& to, const std::string& text);

}  // namespace ddprun::test
