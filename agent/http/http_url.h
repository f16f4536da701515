// An http or https URL to which something is sent. Pure.
//
// Strict: no user information, no fragment, only the characters that a URL may have. Names of hosts are those of DNS or
// addresses in numbers.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::agent {

constexpr std::size_t kUrlMax = 2 << 10;

struct HttpUrl {
  bool https = false;
  std::string host = {};  // without the brackets of [::1]
  std::uint16_t port = 0;
  std::string target = {};  // path and query: "/v1/metrics"; empty: the URL ends with the host

  friend bool operator==(const HttpUrl&, const HttpUrl&) = default;
};

// Otherwise what it takes: "it takes http://HOST[:PORT][/PATH] or https://...".
std::variant<HttpUrl, std::string> parse_url(std::string_view text);
// "https://collector:4318/v1/metrics", without the query, which may hold a secret.
std::string shown(const HttpUrl& url);
// As a Host header has it: without the scheme's usual port.
std::string host_field(const HttpUrl& url);

}  // namespace ddprun::agent
