// The interface between ddprun and its TLS module, libddprun_tls.so: one function, found by name, and two classes.
//
// Only the module links OpenSSL: linked into ddprun, it costs every start six times the instructions of a whole launch
// (8.1 against 1.4 million), with or without a token. Both sides contain their own libstdc++, so no exception and
// nothing that owns memory crosses; each side destroys what it made.
//
// A session is TLS without a socket: received bytes go in, bytes to send come out. Only TLS 1.3, one cipher suite, no
// session tickets, no early data. By token: PSK with an ephemeral key exchange and without certificates; a peer that
// shows one is refused. By certificates: both sides must show one that the authority signed. The name in it does not
// matter: nodes are reached by addresses that come and go, so the authority must sign only members of the cluster.
// Every node listens and connects, so a certificate that names key usages must name both, server and client
// authentication.
//
// For HTTP there are two more uses, TLS 1.2 and 1.3 with OpenSSL's suites: as a client of a server whose certificate
// must be an authority's and name its host, and as a server that shows its certificate to anybody.
//
// Not thread-safe.
#pragma once
#include <cstddef>
#include <string_view>

#include "rendezvous/peer/peer_role.h"

namespace ddprun::rendezvous {

enum class TlsResult { done, need_input, closed, failed };

class TlsSession {
 public:
  virtual ~TlsSession() = default;
  // After each call of any function there may be bytes to send.
  virtual void take_in(std::string_view received) = 0;
  virtual std::size_t take_out(char* to, std::size_t size) = 0;
  // Done: the peer has authenticated by the token, or by its certificate, and by nothing else.
  virtual TlsResult handshake() = 0;
  virtual TlsResult read(char* to, std::size_t size, std::size_t& count) = 0;
  virtual TlsResult write(std::string_view bytes) = 0;
  virtual void write_close_notify() = 0;
  virtual const char* why() const = 0;  // after `failed`: "it presented no token"
};

class TlsEngine {
 public:
  virtual ~TlsEngine() = default;
  // nullptr: out of memory. The session may not outlive the engine.
  virtual TlsSession* open(PeerRole role) = 0;
  // Tells jobs of different tokens apart, and nothing of the token: 16 hex digits. Of certificates the same for all.
  virtual const char* mark() const = 0;
};

struct TlsFile {
  const char* name = nullptr;
  std::string_view pem = {};
};

enum class TlsUse { peers, https_client, https_server };

// For peers: a token and the job it is for, or what three files hold.
struct TlsKeys {
  TlsUse use = TlsUse::peers;
  std::string_view token = {}, run_id = {};
  TlsFile certificate = {};  // with the chain up to the authority, if there is one; an HTTPS client may have none
  TlsFile key = {};          // without a passphrase: there is nobody to ask for it
  TlsFile authority = {};    // of an HTTPS client: without a name, the system's authorities
  const char* host = "";     // of an HTTPS client: the server's name or address
};

// nullptr: not available, and `why` says why. Takes milliseconds: it initializes OpenSSL.
using MakeTlsEngine = TlsEngine*(const TlsKeys& keys, char* why, std::size_t why_size);
inline constexpr const char* kMakeTlsEngineName = "ddprun_make_tls_engine";

}  // namespace ddprun::rendezvous
