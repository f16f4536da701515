// The pre-shared key of a job, and OpenSSL's callbacks that put it into a TLS 1.3 handshake (RFC 8446, section 4.2.11).
//
// Part of the TLS module (tls_plugin.h), the only one that links OpenSSL. No exceptions: what fails says so.
#pragma once
#include <openssl/ssl.h>

#include <array>
#include <string_view>

namespace ddprun::rendezvous {

// Wiped where it ends.
struct Psk {
  std::array<unsigned char, 32> key{};
  Psk() = default;
  Psk(const Psk&) = delete;
  Psk& operator=(const Psk&) = delete;
  ~Psk();
};

// HKDF-SHA256 (RFC 5869) of the token, the job's id as salt: one token gives each job a key of its own. Nothing is
// stretched, as a token is random (token.h). False where OpenSSL cannot.
bool derive_psk(std::string_view token, std::string_view run_id, Psk& psk);

// The key is for the context's connections, in either part; it must outlive them.
bool use_psk(SSL_CTX* context, const Psk& psk);

// The one suite that is spoken: a PSK belongs to one hash, and where several suites are allowed OpenSSL may choose one
// of another hash and drop the key without a word.
constexpr const char* kTlsSuite = "TLS_AES_128_GCM_SHA256";

}  // namespace ddprun::rendezvous
