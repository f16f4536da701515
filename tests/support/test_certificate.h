// A certificate for tests of HTTPS, signed by itself: whoever trusts it trusts its server.
#pragma once
#include <string>

#include "tests/support/catch.h"
#include "tests/support/command.h"

namespace ddprun::test {

struct TestCertificate {
  std::string certificate, key;  // their files
};

// `names`: "DNS:localhost,IP:127.0.0.1".
inline TestCertificate make_certificate(const TempFolder& folder, const std::string& name, const std::string& names) {
  TestCertificate out{folder / (name + ".pem"), folder / (name + ".key")};
  const Ended made = run(
      {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout",
       out.key, "-out", out.certificate, "-days", "2", "-subj", "/CN=" + name, "-addext", "subjectAltName=" + names},
      std::chrono::seconds(30));
  REQUIRE(made == exited(0));
  return out;
}

}  // namespace ddprun::test
