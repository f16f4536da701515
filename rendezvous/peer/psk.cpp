#include "rendezvous/peer/psk.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/kdf.h>
#include <openssl/params.h>

#include <memory>

namespace ddprun::rendezvous {
namespace {

constexpr unsigned char kSuiteId[] = {0x13, 0x01};  // kTlsSuite on the wire
// Sent unencrypted, so it names only the kind of the key. Both change together with the derivation.
constexpr std::string_view kIdentity = "ddprun/1";
constexpr std::string_view kInfo = "ddprun control channel, TLS 1.3 external PSK, v1";

OSSL_PARAM octets(const char* name, std::string_view bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(bytes.data()), bytes.size());
}

const Psk& psk_of(SSL* ssl) { return *static_cast<const Psk*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl))); }

SSL_SESSION* session_of(SSL* ssl) {
  const Psk& psk = psk_of(ssl);
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuiteId);
  SSL_SESSION* session = SSL_SESSION_new();
  if (session && suite && SSL_SESSION_set1_master_key(session, psk.key.data(), psk.key.size()) == 1 &&
      SSL_SESSION_set_cipher(session, suite) == 1 && SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1)
    return session;
  SSL_SESSION_free(session);
  return nullptr;
}

// Success without a session means: unknown key, continue without it; having no certificate, we then fail.
int find_session(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  const bool ours = std::string_view(reinterpret_cast<const char*>(identity), size) == kIdentity;
  *session = ours ? session_of(ssl) : nullptr;
  return 1;
}

int use_session(SSL* ssl, const EVP_MD*, const unsigned char** identity, size_t* size, SSL_SESSION** session) {
  *identity = reinterpret_cast<const unsigned char*>(kIdentity.data());
  *size = kIdentity.size();
  *session = session_of(ssl);
  return *session != nullptr;
}

}  // namespace

Psk::~Psk() { OPENSSL_cleanse(key.data(), key.size()); }

bool derive_psk(std::string_view token, std::string_view run_id, Psk& psk) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> hkdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), &EVP_KDF_free);
  if (!hkdf) return false;
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> run(EVP_KDF_CTX_new(hkdf.get()), &EVP_KDF_CTX_free);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
      octets(OSSL_KDF_PARAM_KEY, token),
      octets(OSSL_KDF_PARAM_SALT, run_id),
      octets(OSSL_KDF_PARAM_INFO, kInfo),
      OSSL_PARAM_construct_end(),
  };
  return run && EVP_KDF_derive(run.get(), psk.key.data(), psk.key.size(), parameters) == 1;
}

bool use_psk(SSL_CTX* context, const Psk& psk) {
  SSL_CTX_set_psk_find_session_callback(context, find_session);
  SSL_CTX_set_psk_use_session_callback(context, use_session);
  return SSL_CTX_set_app_data(context, const_cast<Psk*>(&psk)) == 1;
}

}  // namespace ddprun::rendezvous
