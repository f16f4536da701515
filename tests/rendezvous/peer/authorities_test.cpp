#include "rendezvous/peer/authorities.h"

#include "tests/support/test.h"

namespace {

std::string file_in(const TempFolder& system, const std::string& path) {
  fs::create_directories((system / path).parent_path());
  return system.write(path, "");
}

}  // namespace

TEST_CASE("the system's authorities are found where its distribution keeps them", "[tls]") {
  const TempFolder system;
  const std::string own_file = system / "usr/lib/ssl/cert.pem", own_folder = system / "usr/lib/ssl/certs";
  const auto found = [&] { return authorities_elsewhere(own_file, own_folder, system.path()); };
  CHECK(found().empty());
  const std::string of_suse = file_in(system, "etc/ssl/ca-bundle.pem");
  CHECK(found() == of_suse);
  const std::string of_red_hat = file_in(system, "etc/pki/tls/certs/ca-bundle.crt");
  CHECK(found() == of_red_hat);
  fs::create_directories(own_folder);  // Debian's, which OpenSSL reads by itself
  CHECK(found().empty());
}
