// Certificates for tests: an authority, and what it or nobody signed, as files in PEM.
#pragma once
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

#include "rendezvous/peer/tls_context.h"
#include "tests/support/command.h"

namespace ddprun::test {

struct FreeX509 {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

struct Certificate {
  std::unique_ptr<X509, FreeX509> certificate;
  std::unique_ptr<EVP_PKEY, FreeX509> key;
  std::string certificate_file, key_file;
};

// Valid from yesterday until `days` from now, by a key on P-256. `issuer` nullptr: signed by itself, an authority.
Certificate make_certificate(const TempFolder& folder, const std::string& name, const Certificate* issuer, int days = 1,
                             const std::string& passphrase = "", bool may_sign = false);

// Its files, and those of the authority that it trusts.
rendezvous::CertificateFiles files_of(const Certificate& own, const Certificate& trusted);

// Of a node that has certificates.
struct NodeFiles {
  TempFolder folder;
  Certificate authority = make_certificate(folder, "authority", nullptr);
  Certificate node = make_certificate(folder, "node", &authority);
  rendezvous::Credentials credentials() const { return files_of(node, authority); }
};

}  // namespace ddprun::test
