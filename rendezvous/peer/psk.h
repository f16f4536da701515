// The pre-shared key of a job, and OpenSSL's callbacks that put it into a TLS 1.3 handshake (RFC 8446, section 4.2.11).
//
// Part of the TLS module (tls_plugin.h), the only one that links OpenSSL. No exceptions: functions report failure.
#pragma once
#include <openssl/ssl.h>

#include <array>
#include <string_view>

namespace ddprun::rendezvous {

// Its destructor wipes the key.
struct Psk {
  std::array<unsigned char, 32> key{};
  Psk() = default;
  Psk(const Psk&) = delete;
  Psk& operator=(const Psk&) = delete;
  ~Psk();
};

// HKDF-SHA256 (RFC 5869) of the token, with the job's id as salt: one token gives each job a different key. No key
// stretching, as a token is random (token.h). False if OpenSSL fails.
bool derive_psk(std::string_view token, std::string_view run_id, Psk& psk);

// Sets the key for the context's connections, in either role; the key must outlive them.
bool use_psk(SSL_CTX* context, const Psk& psk);

// The only cipher suite: a PSK belongs to one hash, and if several suites are allowed OpenSSL may choose one of another
// hash and drop the key silently.
constexpr const char* kTlsSuite = "TLS_AES_128_GCM_SHA256";

}  // namespace ddprun::rendezvous
