// How a node shows that it belongs to its job: nothing, a token, or certificates.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "rendezvous/peer/token.h"

namespace ddprun::rendezvous {

struct NoCredentials {};
// A file's content. Copies share the text, which is wiped with the last of them: it may be a key.
class PemFile {
 public:
  PemFile(std::string name, std::string text);
  const std::string& name() const { return name_; }
  std::string_view text() const { return *text_; }

 private:
  std::string name_;
  std::shared_ptr<const std::string> text_;
};
// What they must contain: tls_plugin.h.
struct CertificateFiles {
  PemFile certificate, key, authority;
};
using Credentials = std::variant<NoCredentials, Token, CertificateFiles>;

}  // namespace ddprun::rendezvous
