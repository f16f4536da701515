#include "tests/rendezvous/peer/certificates.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <stdexcept>

namespace ddprun::test {
namespace {

constexpr long kDay = 24 * 60 * 60;

void require(bool ok, const char* what) {
  if (!ok) throw std::runtime_error(std::string("cannot make a certificate: ") + what);
}

void add_extension(X509* certificate, int kind, const char* value) {
  X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value);
  require(extension && X509_add_ext(certificate, extension, -1), value);
  X509_EXTENSION_free(extension);
}

template <class Write>
void write_file(const std::string& name, Write write) {
  std::FILE* file = std::fopen(name.c_str(), "w");
  require(file && write(file) == 1 && std::fclose(file) == 0, name.c_str());
}

}  // namespace

Certificate make_certificate(const TempFolder& folder, const std::string& name, const Certificate* issuer, int days,
                             const std::string& passphrase, bool may_sign) {
  static std::atomic<long> serial{1};
  Certificate made;
  made.key.reset(EVP_EC_gen("P-256"));
  made.certificate.reset(X509_new());
  X509* certificate = made.certificate.get();
  require(made.key && certificate, "a key");
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), days * kDay);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer ? issuer->certificate.get() : certificate));
  X509_set_pubkey(certificate, made.key.get());
  add_extension(certificate, NID_basic_constraints, issuer && !may_sign ? "CA:FALSE" : "critical,CA:TRUE");
  require(X509_sign(certificate, issuer ? issuer->key.get() : made.key.get(), EVP_sha256()) > 0, "a signature");

  made.certificate_file = folder / (name + ".pem");
  made.key_file = folder / (name + ".key");
  write_file(made.certificate_file, [&](std::FILE* to) { return PEM_write_X509(to, certificate); });
  write_file(made.key_file, [&](std::FILE* to) {
    const auto* words = reinterpret_cast<const unsigned char*>(passphrase.data());
    return PEM_write_PrivateKey(to, made.key.get(), passphrase.empty() ? nullptr : EVP_aes_128_cbc(),
                                passphrase.empty() ? nullptr : words, static_cast<int>(passphrase.size()), nullptr,
                                nullptr);
  });
  return made;
}

rendezvous::CertificateFiles files_of(const Certificate& own, const Certificate& trusted) {
  const auto file = [](const std::string& name) { return rendezvous::PemFile(name, read_file(name)); };
  return {file(own.certificate_file), file(own.key_file), file(trusted.certificate_file)};
}

}  // namespace ddprun::test
