// TLS without sockets: sessions of ours, and foreign ones that try to get in, led to each other byte by byte.
#include "rendezvous/base/error.h"
#include "rendezvous/peer/psk.h"
#include "rendezvous/peer/tls_context.h"
#include "tests/rendezvous/peer/certificates.h"
#include "tests/rendezvous/peer/foreign_tls.h"
#include "tests/support/test.h"

namespace {

const std::string kToken = "00112233445566778899aabbccddeeff", kOtherToken = "ffeeddccbbaa99887766554433221100";

Token token(const std::string& text) { return std::get<Token>(Token::parse(text)); }

// Contexts live as long as the test program: to make one takes milliseconds.
TlsContext& by_token(const std::string& text = kToken, const std::string& job = "job-7") {
  static std::map<std::string, std::unique_ptr<TlsContext>> made;
  auto& context = made[text + job];
  if (!context) context = std::make_unique<TlsContext>(token(text), job);
  return *context;
}

std::unique_ptr<TlsSession> server() { return by_token().open(PeerRole::server); }
std::unique_ptr<TlsSession> client() { return by_token().open(PeerRole::client); }

const Psk& right_key() {
  static Psk psk;
  static const bool derived = derive_psk(kToken, "job-7", psk);
  CHECK(derived);
  return psk;
}

ForeignContext with_key(const char* suites) {
  ForeignContext context = foreign_context();
  CHECK(use_psk(context.get(), right_key()));
  CHECK(SSL_CTX_set_ciphersuites(context.get(), suites) == 1);
  return context;
}

bool refused(const Meeting& meeting) {  // on the side where ours is
  return meeting.server == TlsResult::failed || meeting.client == TlsResult::failed;
}

struct Files {
  TempFolder folder;
  Certificate authority = make_certificate(folder, "authority", nullptr);
  Certificate stranger = make_certificate(folder, "stranger", nullptr);  // another authority
  Certificate node0 = make_certificate(folder, "node0", &authority);
  Certificate node1 = make_certificate(folder, "node1", &authority);

  TlsContext context(const Certificate& own, const Certificate& trusted) const {
    return TlsContext(files_of(own, trusted), "job-7");
  }
};

}  // namespace

TEST_CASE("the key is HKDF-SHA256 of the token, salted with the job", "[tls]") {
  Psk psk;  // the expected values were computed by Python's hmac
  REQUIRE(derive_psk(kToken, "job-7", psk));
  CHECK(hex(psk.key) == "3a492dcd0e850f1067eba5aa45d68409ecbd218ce3831cca5325f8c5d866d7be");
  REQUIRE(derive_psk(kToken, "", psk));
  CHECK(hex(psk.key) == "f844cb936b206b2fcc1b3473fad1dcca99cc8aec9c39ff89633521b61016486b");
}

TEST_CASE("two that have the token talk both ways, also where the handshake comes byte by byte", "[tls]") {
  const auto us = server(), them = client();
  REQUIRE(meet(*us, *them, GENERATE(1, 4096)).good());
  CHECK(passed_on(*them, *us, "hello") == "hello");
  CHECK(passed_on(*us, *them, "good day") == "good day");
  them->write_close_notify();
  us->take_in(all_output(*them));
  char byte = 0;
  std::size_t count = 0;
  CHECK(us->read(&byte, 1, count) == TlsResult::closed);
}

TEST_CASE("a client without a token is refused, with or without a certificate", "[tls]") {
  const Files files;
  const ForeignContext bare = foreign_context(), certified = foreign_context();
  SSL_CTX_use_certificate(certified.get(), files.node1.certificate.get());
  SSL_CTX_use_PrivateKey(certified.get(), files.node1.key.get());
  for (SSL_CTX* context : {bare.get(), certified.get()}) {
    const auto us = server();
    ForeignSession them(context, PeerRole::client);
    CHECK(meet(*us, them).server == TlsResult::failed);
    CHECK(us->why() == std::string("it presented no token"));
  }
}

TEST_CASE("a client that speaks TLS 1.2 alone is refused, and so is a server", "[tls]") {
  const Files files;
  const ForeignContext old = foreign_context();
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  SSL_CTX_use_certificate(old.get(), files.node0.certificate.get());
  SSL_CTX_use_PrivateKey(old.get(), files.node0.key.get());
  const auto us = server(), we = client();
  ForeignSession old_client(old.get(), PeerRole::client), old_server(old.get(), PeerRole::server);
  CHECK(meet(*us, old_client).server == TlsResult::failed);
  CHECK(us->why() == std::string("it speaks a TLS version older than 1.3"));
  CHECK(meet(old_server, *we).client == TlsResult::failed);
}

TEST_CASE("a server that shows a certificate instead of the token is refused", "[tls]") {
  const Files files;
  for (const Certificate* certificate : {&files.stranger, &files.node0}) {
    const ForeignContext rogue = foreign_context();
    SSL_CTX_use_certificate(rogue.get(), certificate->certificate.get());
    SSL_CTX_use_PrivateKey(rogue.get(), certificate->key.get());
    ForeignSession them(rogue.get(), PeerRole::server);
    const auto we = client();
    CHECK(meet(them, *we).client == TlsResult::failed);
    CHECK(we->why() == std::string("it presented a certificate instead of the token"));
  }
}

TEST_CASE("our client offers TLS 1.3, one cipher suite, and a PSK only with an ephemeral key", "[tls]") {
  struct Hello {
    std::string suites, versions, psk_modes;
  } hello;
  const ForeignContext curious = foreign_context();
  SSL_CTX_set_client_hello_cb(
      curious.get(),
      [](SSL* ssl, int*, void* to) {
        const unsigned char* bytes = nullptr;
        Hello& hello = *static_cast<Hello*>(to);
        std::size_t size = SSL_client_hello_get0_ciphers(ssl, &bytes);
        hello.suites.assign(reinterpret_cast<const char*>(bytes), size);
        if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &bytes, &size))
          hello.versions.assign(reinterpret_cast<const char*>(bytes), size);
        if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk_kex_modes, &bytes, &size))
          hello.psk_modes.assign(reinterpret_cast<const char*>(bytes), size);
        return SSL_CLIENT_HELLO_SUCCESS;
      },
      &hello);
  ForeignSession them(curious.get(), PeerRole::server);
  const auto we = client();
  meet(them, *we);
  CHECK(hex(hello.suites) == "130100ff");  // the latter is no suite: TLS_EMPTY_RENEGOTIATION_INFO
  CHECK(hex(hello.versions) == "020304");
  CHECK(hex(hello.psk_modes) == "0101");  // psk_dhe_ke
}

TEST_CASE("our server speaks one cipher suite, also with a client that has the key and offers more", "[tls]") {
  const ForeignContext both = with_key("TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256");
  const auto us = server();
  ForeignSession many(both.get(), PeerRole::client);
  CHECK(meet(*us, many).good());
  CHECK(std::string(SSL_get_cipher_name(many.native())) == "TLS_AES_128_GCM_SHA256");
  for (const char* other : {"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}) {
    const ForeignContext context = with_key(other);
    const auto again = server();
    ForeignSession them(context.get(), PeerRole::client);
    CHECK(refused(meet(*again, them)));
  }
}

TEST_CASE("the key exchange is ephemeral even where the client would do without", "[tls]") {
  const ForeignContext careless = with_key("TLS_AES_128_GCM_SHA256");
  SSL_CTX_set_options(careless.get(), SSL_OP_ALLOW_NO_DHE_KEX);
  const auto us = server();
  ForeignSession them(careless.get(), PeerRole::client);
  REQUIRE(meet(*us, them).good());
  EVP_PKEY* ephemeral = nullptr;
  CHECK(SSL_get_peer_tmp_key(them.native(), &ephemeral) == 1);
  EVP_PKEY_free(ephemeral);
}

TEST_CASE("no session tickets are given: a client that keeps its session has nothing to come back with", "[tls]") {
  const ForeignContext keeping = with_key("TLS_AES_128_GCM_SHA256");
  const auto us = server();
  ForeignSession them(keeping.get(), PeerRole::client);
  REQUIRE(meet(*us, them).good());
  CHECK(passed_on(*us, them, "x") == "x");  // what came before it was read, too
  SSL_SESSION* session = SSL_get1_session(them.native());
  CHECK_FALSE(SSL_SESSION_has_ticket(session));
  SSL_SESSION_free(session);
}

TEST_CASE("a recorded handshake played again is worth nothing", "[tls]") {
  const auto us = server(), them = client();
  Meeting recorded = meet(*us, *them);
  REQUIRE(recorded.good());
  them->write("the words of a member");
  recorded.from_client += all_output(*them);

  const auto again = server();
  again->take_in(recorded.from_client);
  TlsResult result = TlsResult::need_input;
  for (int i = 0; i < 10 && result == TlsResult::need_input; ++i) result = again->handshake();
  CHECK(result == TlsResult::failed);

  const auto we = client();  // and to a client, the server's part
  all_output(*we);
  we->handshake();
  we->take_in(recorded.from_server);
  CHECK(we->handshake() == TlsResult::failed);
}

TEST_CASE("our own bytes sent back to us prove nothing", "[tls]") {
  const auto we = client();
  CHECK(we->handshake() == TlsResult::need_input);
  const std::string hello = all_output(*we);
  we->take_in(hello);
  CHECK(we->handshake() == TlsResult::failed);

  const auto us = server(), them = client();  // after the handshake, too: each way has keys of its own
  REQUIRE(meet(*us, *them).good());
  us->write("come in");
  us->take_in(all_output(*us));
  char bytes[64];
  std::size_t count = 0;
  CHECK(us->read(bytes, sizeof bytes, count) == TlsResult::failed);
}

TEST_CASE("a byte changed on the way ends the handshake, wherever it is", "[tls]") {
  std::mt19937 random(3);
  std::string hello;
  {
    const auto them = client();
    them->handshake();
    hello = all_output(*them);
  }
  for (std::size_t at = 0; at < hello.size(); ++at) {
    if (at == 1 || at == 2) continue;  // the record's version, which TLS 1.3 does not look at
    const auto us = server(), them = client();
    them->handshake();
    std::string bytes = all_output(*them);
    REQUIRE(bytes.size() == hello.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 + random() % 255));
    us->take_in(bytes);
    us->handshake();
    INFO("byte " << at);
    CHECK_FALSE(meet(*us, *them).good());
  }
}

TEST_CASE("no garbage is taken for a handshake", "[tls]") {
  std::mt19937 random(5);
  for (int i = 0; i < 300; ++i) {
    std::string bytes(random() % 600, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 2) bytes = std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + bytes;  // as a hello begins
    const auto us = server();
    us->take_in(bytes);
    CHECK(us->handshake() != TlsResult::done);
  }
  for (const std::string text : {"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH_9.2\r\n", "ddprun\x01S"}) {
    const auto us = server();
    us->take_in(text);
    CHECK(us->handshake() == TlsResult::failed);
    CHECK(us->why() == std::string("it does not speak TLS as ddprun does"));
  }
}

TEST_CASE("a certificate of another authority is refused, as server and as client", "[tls]") {
  const Files files;
  TlsContext good = files.context(files.node0, files.authority), bad = files.context(files.stranger, files.authority);
  const auto us = good.open(PeerRole::server), them = bad.open(PeerRole::client);
  CHECK(meet(*us, *them).server == TlsResult::failed);
  CHECK(std::string(us->why()).starts_with("its certificate is refused: self-signed certificate"));
  const auto we = good.open(PeerRole::client), rogue = bad.open(PeerRole::server);
  CHECK(meet(*rogue, *we).client == TlsResult::failed);
  CHECK(rogue->why() == std::string("it refused this node's certificate (unknown CA)"));
}

TEST_CASE("an expired certificate is refused, and its owner is told", "[tls]") {
  const Files files;
  const Certificate expired = make_certificate(files.folder, "expired", &files.authority, -1);
  TlsContext good = files.context(files.node0, files.authority), bad = files.context(expired, files.authority);
  const auto us = good.open(PeerRole::server), them = bad.open(PeerRole::client);
  meet(*us, *them);
  CHECK(us->why() == std::string("its certificate is refused: certificate has expired"));
  char byte = 0;
  std::size_t count = 0;
  CHECK(them->read(&byte, 1, count) == TlsResult::failed);
  CHECK(them->why() == std::string("it refused this node's certificate (certificate expired)"));
}

TEST_CASE("with certificates nobody gets in without one, not even with a token", "[tls]") {
  const Files files;
  TlsContext good = files.context(files.node0, files.authority);
  const auto us = good.open(PeerRole::server), them = client();
  CHECK(meet(*us, *them).server == TlsResult::failed);
  const ForeignContext bare = foreign_context();
  const auto again = good.open(PeerRole::server);
  ForeignSession nobody(bare.get(), PeerRole::client);
  meet(*again, nobody);
  CHECK(again->why() == std::string("it presented no certificate"));
}

TEST_CASE("wrong files are told by name: the wrong key, files swapped, a passphrase, nothing there", "[tls]") {
  const Files files;
  const Certificate locked = make_certificate(files.folder, "locked", &files.authority, 1, "sesame");
  const auto complaint = [](const std::string& certificate, const std::string& key, const std::string& authority) {
    const auto file = [](const std::string& name) { return PemFile(name, test::read_file(name)); };
    TlsContext context(CertificateFiles{file(certificate), file(key), file(authority)}, "job-7");
    return error_text<UsageError>([&] { context.prepare(); });
  };
  const std::string &own = files.node0.certificate_file, &key = files.node0.key_file,
                    &ca = files.authority.certificate_file;
  CHECK(complaint(own, key, ca).empty());
  CHECK(complaint(own, files.node1.key_file, ca).find("node1.key cannot be used: key values mismatch") !=
        std::string::npos);
  CHECK(complaint(key, own, ca).find("the certificate " + key + " cannot be used: no start line") != std::string::npos);
  CHECK(complaint(own, locked.key_file, ca).find("locked.key cannot be used") != std::string::npos);
  CHECK(complaint(own, key, key).find("the authority " + key + " cannot be used") != std::string::npos);
}

TEST_CASE("a certificate, a key or an authority that is empty or cut off is refused", "[tls]") {
  const Files files;
  const CertificateFiles whole = files_of(files.node0, files.authority);
  const auto complaint = [](const CertificateFiles& used) {
    TlsContext context(used, "job-7");
    return error_text<UsageError>([&] { context.prepare(); });
  };
  const auto half = [](const PemFile& file) { return std::string(file.text().substr(0, file.text().size() / 2)); };
  const auto with = [](const PemFile& file, const std::string& end) {
    return PemFile(file.name(), std::string(file.text()) + end);
  };
  for (PemFile CertificateFiles::*file :
       {&CertificateFiles::certificate, &CertificateFiles::key, &CertificateFiles::authority}) {
    CertificateFiles used = whole;
    for (const std::string& text : {std::string(), half(whole.*file), std::string("\0\0", 2)}) {
      used.*file = PemFile("bad.pem", text);
      CHECK(complaint(used).find(" bad.pem cannot be used") != std::string::npos);
    }
  }
  CertificateFiles used = whole;
  used.certificate = with(whole.certificate, "The end.\n");
  CHECK(complaint(used).empty());
  used.certificate = with(whole.certificate, half(whole.authority));
  CHECK(complaint(used).find("the certificate " + whole.certificate.name() + " cannot be used") != std::string::npos);
}

TEST_CASE("a certificate comes with those between it and the authority, and more than one authority may be trusted",
          "[tls]") {
  const Files files;
  const Certificate between = make_certificate(files.folder, "between", &files.authority, 1, "", true);
  const Certificate node = make_certificate(files.folder, "node2", &between);
  const auto pem = [](const Certificate& of) { return test::read_file(of.certificate_file); };
  const auto context = [&](const std::string& chain, const std::string& authorities) {
    return TlsContext(CertificateFiles{PemFile("chain", chain), PemFile("key", test::read_file(node.key_file)),
                                       PemFile("authorities", authorities)},
                      "job-7");
  };
  TlsContext good = files.context(files.node0, files.authority);
  TlsContext chained = context(pem(node) + pem(between), pem(files.stranger) + "\nA word.\n" + pem(files.authority));
  TlsContext bare = context(pem(node), pem(files.authority));
  CHECK(meet(*good.open(PeerRole::server), *chained.open(PeerRole::client)).good());
  CHECK(meet(*good.open(PeerRole::server), *bare.open(PeerRole::client)).server == TlsResult::failed);
}
