// What ddprun and its TLS module, libddprun_tls.so, agree on: one function, found by name, and two classes.
//
// OpenSSL stands behind the module alone: linked into ddprun, it costs every start six times the instructions of a
// whole launch (8.1 against 1.4 million), token or not. Both sides have a libstdc++ of their own inside, so no
// exception and nothing that owns memory crosses; what one side made, that side destroys.
//
// A session is TLS without a socket: received bytes go in, bytes to send come out. TLS 1.3 alone, one cipher suite, no
// session tickets, no early data. By token: PSK with an ephemeral key exchange; nobody shows a certificate, and whoever
// does is refused. By certificates: both sides must show one that the authority signed. Which name is in it does not
// matter: nodes are reached by addresses that come and go, so the authority must sign nothing but members of the
// cluster. Since every node listens and connects, a certificate that names key usages must name both, server and client
// authentication.
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
  // Done: the peer has proved itself by the token, or by its certificate, and by nothing else.
  virtual TlsResult handshake() = 0;
  virtual TlsResult read(char* to, std::size_t size, std::size_t& count) = 0;
  virtual TlsResult write(std::string_view bytes) = 0;
  virtual void say_goodbye() = 0;
  virtual const char* why() const = 0;  // after `failed`: "it shows no token"
};

class TlsEngine {
 public:
  virtual ~TlsEngine() = default;
  // nullptr: no memory. It may not outlive the engine.
  virtual TlsSession* open(PeerRole role) = 0;
};

struct TlsFile {
  const char* name = nullptr;
  std::string_view pem = {};
};

// A token and the job it is for, or what three files hold.
struct TlsKeys {
  std::string_view token = {}, run_id = {};
  TlsFile certificate = {};  // with the chain up to the authority, where there is one
  TlsFile key = {};          // without a passphrase: nobody is there to ask for it
  TlsFile authority = {};
};

// nullptr: it cannot be had, and `why` says so. It costs milliseconds: OpenSSL begins with it.
using MakeTlsEngine = TlsEngine*(const TlsKeys& keys, char* why, std::size_t why_size);
inline constexpr const char* kMakeTlsEngineName = "ddprun_make_tls_engine";

}  // namespace ddprun::rendezvous
