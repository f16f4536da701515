// Built as a library of its own that links OpenSSL. See tls_plugin.h.
#include "rendezvous/peer/tls_plugin.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "rendezvous/peer/authorities.h"
#include "rendezvous/peer/psk.h"

namespace ddprun::rendezvous {
namespace {

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* ssl) const { SSL_free(ssl); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(ASN1_OCTET_STRING* text) const { ASN1_OCTET_STRING_free(text); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Context = std::unique_ptr<SSL_CTX, Free>;
using Certificate = std::unique_ptr<X509, Free>;

enum class AuthMethod { token, certificate, https };

AuthMethod auth_method_of(const TlsKeys& keys) {
  if (keys.use != TlsUse::peers) return AuthMethod::https;
  return keys.certificate.name ? AuthMethod::certificate : AuthMethod::token;
}

// The first error, in OpenSSL's words.
std::string openssl_message(unsigned long error) {
  if (ERR_SYSTEM_ERROR(error)) return std::strerror(ERR_GET_REASON(error));
  const char* message = ERR_reason_error_string(error);
  return message ? message : "unknown error";
}

// The other side's alert (RFC 8446, section 6): that it refused us, and why.
std::string alert_message(int reason, AuthMethod method) {
  if (method == AuthMethod::token && reason == SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER)  // the binder did not verify
    return "it has another token, or belongs to another job (--rdzv-id)";
  const std::string alert = std::string(SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
  if (method == AuthMethod::https) return "it refused the connection (" + alert + ")";
  const std::string what = method == AuthMethod::token ? "this node's token" : "this node's certificate";
  return "it refused " + what + " (" + alert + ")";
}

std::string token_message(int reason) {
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:
      return "its token or its job (--rdzv-id) is not this node's";
    case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:  // OpenSSL's error if there is no PSK, and we have no certificate
    case SSL_R_NO_SHARED_CIPHER:
      return "it presented no token";
    default:
      return {};
  }
}

std::string refused_certificate(long why, AuthMethod method) {
  if (method == AuthMethod::token) return "it presented a certificate instead of the token";
  return std::string("its certificate is refused: ") + X509_verify_cert_error_string(why);
}

std::string common_message(int reason, AuthMethod method) {
  switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_UNEXPECTED_MESSAGE:
      return method == AuthMethod::https ? "it does not speak TLS" : "it does not speak TLS as ddprun does";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
      return "it presented no certificate";
    case SSL_R_UNSUPPORTED_PROTOCOL:
      return method == AuthMethod::https ? "it speaks a TLS version older than 1.2"
                                         : "it speaks a TLS version older than 1.3";
    default:
      return {};
  }
}

bool is_address(const char* host) {
  const std::unique_ptr<ASN1_OCTET_STRING, Free> address(a2i_IPADDRESS(host));
  return address != nullptr;
}

std::string failure_message(SSL* ssl, AuthMethod method) {
  const unsigned long error = ERR_get_error();
  const long verified = SSL_get_verify_result(ssl);
  if (verified != X509_V_OK) return refused_certificate(verified, method);
  const int reason = ERR_GET_REASON(error);
  if (ERR_GET_LIB(error) != ERR_LIB_SSL) return openssl_message(error);
  if (reason > SSL_AD_REASON_OFFSET) return alert_message(reason, method);
  std::string message = method == AuthMethod::token ? token_message(reason) : "";
  if (message.empty()) message = common_message(reason, method);
  return message.empty() ? openssl_message(error) : message;
}

class Session : public TlsSession {
 public:
  // `host`: of the server, which it is told in clear (SNI); nullptr: nothing.
  Session(SSL_CTX* context, PeerRole role, AuthMethod method, const char* host)
      : auth_method_(method), ssl_(SSL_new(context)), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
    if (!usable()) {
      BIO_free(in_);
      BIO_free(out_);
      return;
    }
    SSL_set_bio(ssl_.get(), in_, out_);  // takes ownership of both
    is_server_ = role == PeerRole::server;
    if (is_server_)
      SSL_set_accept_state(ssl_.get());
    else
      SSL_set_connect_state(ssl_.get());
    if (host && !is_address(host)) SSL_set_tlsext_host_name(ssl_.get(), host);
  }

  bool usable() const { return ssl_ && in_ && out_; }

  void take_in(std::string_view received) override {
    BIO_write(in_, received.data(), static_cast<int>(received.size()));
  }

  std::size_t take_out(char* to, std::size_t size) override {
    const int count = BIO_read(out_, to, static_cast<int>(size));
    return count > 0 ? static_cast<std::size_t>(count) : 0;
  }

  TlsResult handshake() override {
    ERR_clear_error();
    const int returned = SSL_do_handshake(ssl_.get());
    if (returned != 1) return result_of(returned);
    return is_authenticated() ? TlsResult::done : fail("it did not authenticate");
  }

  TlsResult read(char* to, std::size_t size, std::size_t& count) override {
    ERR_clear_error();
    const int returned = SSL_read_ex(ssl_.get(), to, size, &count);
    return returned == 1 ? TlsResult::done : result_of(returned);
  }

  TlsResult write(std::string_view bytes) override {
    ERR_clear_error();
    std::size_t written = 0;
    const int returned = SSL_write_ex(ssl_.get(), bytes.data(), bytes.size(), &written);
    return returned == 1 ? TlsResult::done : result_of(returned);
  }

  void write_close_notify() override {
    ERR_clear_error();
    SSL_shutdown(ssl_.get());
  }

  const char* why() const override { return why_.c_str(); }

 private:
  // A second check, in case a setting above ever changes.
  bool is_authenticated() const {
    if (auth_method_ == AuthMethod::https && is_server_) return true;
    if (auth_method_ == AuthMethod::https) return has_good_certificate();
    if (SSL_version(ssl_.get()) != TLS1_3_VERSION) return false;
    if (auth_method_ == AuthMethod::token) return SSL_session_reused(ssl_.get()) == 1;
    return has_good_certificate();
  }

  bool has_good_certificate() const {
    return SSL_get0_peer_certificate(ssl_.get()) && SSL_get_verify_result(ssl_.get()) == X509_V_OK;
  }

  TlsResult result_of(int returned) {
    switch (SSL_get_error(ssl_.get(), returned)) {
      case SSL_ERROR_WANT_READ:
        return TlsResult::need_input;
      case SSL_ERROR_ZERO_RETURN:
        return TlsResult::closed;
      default:
        return fail(failure_message(ssl_.get(), auth_method_));
    }
  }

  TlsResult fail(std::string why) {
    why_ = std::move(why);
    return TlsResult::failed;
  }

  const AuthMethod auth_method_;
  bool is_server_ = false;
  const std::unique_ptr<SSL, Free> ssl_;
  BIO* const in_;
  BIO* const out_;
  std::string why_;
};

Context make_https_context() {
  Context context(SSL_CTX_new(TLS_method()));
  if (!context) return nullptr;
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  const bool set = SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) == 1 &&
                   SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  return set ? std::move(context) : nullptr;
}

// The settings of both modes and both roles among peers.
Context make_context() {
  Context context(SSL_CTX_new(TLS_method()));
  if (!context) return nullptr;
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);  // of an idle connection
  const bool set = SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context.get(), kTlsSuite) == 1 &&
                   SSL_CTX_set_num_tickets(context.get(), 0) == 1;  // a ticket would be another way to authenticate
  return set ? std::move(context) : nullptr;
}

// Reads the certificates of a PEM text in order; skips what is between them.
class PemReader {
 public:
  explicit PemReader(std::string_view pem) : from_(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))) {}
  Certificate next() { return Certificate(PEM_read_bio_X509_AUX(from_.get(), nullptr, nullptr, nullptr)); }
  // After the last one: no error.
  bool at_end() const {
    const unsigned long error = ERR_peek_last_error();
    if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE) return false;
    ERR_clear_error();
    return true;
  }

 private:
  const std::unique_ptr<BIO, Free> from_;
};

bool use_chain(SSL_CTX* context, std::string_view pem) {
  PemReader reader(pem);
  const Certificate own = reader.next();
  if (!own || SSL_CTX_use_certificate(context, own.get()) != 1) return false;
  while (Certificate issuer = reader.next()) {
    if (SSL_CTX_add1_chain_cert(context, issuer.get()) != 1) return false;
  }
  return reader.at_end();
}

bool use_key(SSL_CTX* context, std::string_view pem) {
  const std::unique_ptr<BIO, Free> from(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };  // OpenSSL would ask the terminal
  const std::unique_ptr<EVP_PKEY, Free> key(PEM_read_bio_PrivateKey(from.get(), nullptr, no_passphrase, nullptr));
  return key && SSL_CTX_use_PrivateKey(context, key.get()) == 1;
}

bool trust(SSL_CTX* context, std::string_view pem) {
  PemReader reader(pem);
  Certificate authority = reader.next();
  if (!authority) return false;
  for (; authority; authority = reader.next())
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1) return false;
  return reader.at_end();
}

bool trust_system(SSL_CTX* context) {
  if (SSL_CTX_set_default_verify_paths(context) != 1) return false;
  const char* const variables[] = {X509_get_default_cert_file_env(), X509_get_default_cert_dir_env()};
  for (const char* variable : variables)
    if (std::getenv(variable)) return true;  // the user has said whom to trust
  const std::string file = authorities_elsewhere(X509_get_default_cert_file(), X509_get_default_cert_dir());
  return file.empty() || SSL_CTX_load_verify_locations(context, file.c_str(), nullptr) == 1;
}

// An address is compared with the addresses in the certificate, a name with the names.
bool expect_host(SSL_CTX* context, const char* host) {
  X509_VERIFY_PARAM* to = SSL_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_hostflags(to, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  return X509_VERIFY_PARAM_set1_ip_asc(to, host) == 1 || X509_VERIFY_PARAM_set1_host(to, host, 0) == 1;
}

class Engine : public TlsEngine {
 public:
  Engine(const TlsKeys& keys) : auth_method_(auth_method_of(keys)), host_(keys.host) {
    if (keys.use == TlsUse::https_client) set_up_https_client(keys);
    if (keys.use == TlsUse::https_server) set_up_https_server(keys);
    if (keys.use == TlsUse::peers) set_up_peers(keys);
  }

  const std::string& why() const { return why_; }  // empty: usable

  const char* mark() const override { return mark_.data(); }

  TlsSession* open(PeerRole role) override {
    SSL_CTX* context = role == PeerRole::server ? server_.get() : client_.get();
    if (!context) return nullptr;
    const char* host = auth_method_ == AuthMethod::https && role == PeerRole::client ? host_.c_str() : nullptr;
    auto session = std::unique_ptr<Session>(new (std::nothrow) Session(context, role, auth_method_, host));
    return session && session->usable() ? session.release() : nullptr;
  }

 private:
  void set_up_peers(const TlsKeys& keys) {
    for (Context* context : {&server_, &client_})
      if (why_.empty()) set_up(*context, keys);
    // Verifies without any authority. A client that does not verify would accept any server that has some certificate
    // and ignores the key; in the server's role this requests nothing.
    if (why_.empty() && auth_method_ == AuthMethod::token) SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
  }

  void set_up(Context& context, const TlsKeys& keys) {
    context = make_context();
    if (!context) return note("OpenSSL has no TLS 1.3 or no " + std::string(kTlsSuite));
    if (auth_method_ == AuthMethod::token) return set_up_token(context.get(), keys);
    set_up_certificates(context.get(), keys);
  }

  void set_up_token(SSL_CTX* context, const TlsKeys& keys) {
    Psk other;  // of no job, as an id has no '/'
    const std::string no_id = std::string(keys.run_id) + "/mark";
    if (!derive_psk(keys.token, keys.run_id, psk_) || !derive_psk(keys.token, no_id, other) || !use_psk(context, psk_))
      return note("OpenSSL has no HKDF");
    for (std::size_t i = 0; i < kMarkBytes; ++i) std::snprintf(&mark_[2 * i], 3, "%02x", other.key[i]);
  }

  void set_up_https_client(const TlsKeys& keys) {
    client_ = make_https_context();
    if (!client_) return note("OpenSSL has no TLS 1.2");
    ERR_clear_error();
    SSL_CTX_set_verify(client_.get(), SSL_VERIFY_PEER, nullptr);
    if (!expect_host(client_.get(), keys.host)) return note("no certificate can name the host " + host_);
    if (keys.certificate.name && !use_chain(client_.get(), keys.certificate.pem))
      return note_file("certificate", keys.certificate.name);
    if (keys.key.name && !use_key(client_.get(), keys.key.pem)) return note_file("key", keys.key.name);
    if (!keys.authority.name) {
      if (!trust_system(client_.get())) note("this system's authorities cannot be read");
    } else if (!trust(client_.get(), keys.authority.pem)) {
      note_file("authority", keys.authority.name);
    }
  }

  void set_up_https_server(const TlsKeys& keys) {
    server_ = make_https_context();
    if (!server_) return note("OpenSSL has no TLS 1.2");
    ERR_clear_error();
    if (!use_chain(server_.get(), keys.certificate.pem)) return note_file("certificate", keys.certificate.name);
    if (!use_key(server_.get(), keys.key.pem)) return note_file("key", keys.key.name);
  }

  void set_up_certificates(SSL_CTX* context, const TlsKeys& keys) {
    ERR_clear_error();
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    if (!use_chain(context, keys.certificate.pem)) return note_file("certificate", keys.certificate.name);
    if (!use_key(context, keys.key.pem)) return note_file("key", keys.key.name);
    if (!trust(context, keys.authority.pem)) return note_file("authority", keys.authority.name);
  }

  void note(std::string why) { why_ = std::move(why); }
  void note_file(const char* what, const char* file) {
    note(std::string("the ") + what + " " + file + " cannot be used: " + openssl_message(ERR_get_error()));
  }

  const AuthMethod auth_method_;
  const std::string host_;
  static constexpr std::size_t kMarkBytes = 8;
  std::array<char, 2 * kMarkBytes + 1> mark_{"certificates"};
  Psk psk_;  // before the contexts, which point to it
  Context server_, client_;
  std::string why_;
};

}  // namespace
}  // namespace ddprun::rendezvous

extern "C" __attribute__((visibility("default"))) ddprun::rendezvous::TlsEngine* ddprun_make_tls_engine(
    const ddprun::rendezvous::TlsKeys& keys, char* why, std::size_t why_size) {
  using namespace ddprun::rendezvous;
  // The system's openssl.cnf takes a millisecond to read and is not needed. OpenSSL's clean-up at exit would only delay
  // the exit.
  OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, nullptr);
  auto engine = std::make_unique<Engine>(keys);
  if (engine->why().empty()) return engine.release();
  std::snprintf(why, why_size, "%s", engine->why().c_str());
  return nullptr;
}
