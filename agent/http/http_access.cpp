#include "agent/http/http_access.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "agent/http/http_syntax.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kScheme = "bearer ";

bool is_scheme(std::string_view text) {
  return std::equal(text.begin(), text.end(), kScheme.begin(), kScheme.end(),
                    [](char theirs, char ours) { return std::tolower(static_cast<unsigned char>(theirs)) == ours; });
}

// How long it takes depends on the length of what was shown alone.
bool equal_in_constant_time(std::string_view shown, std::string_view secret) {
  unsigned differs = shown.size() != secret.size();
  for (std::size_t i = 0; i < shown.size(); ++i)
    differs |= static_cast<unsigned char>(shown[i]) ^ static_cast<unsigned char>(secret[i % secret.size()]);
  return differs == 0;
}

std::string_view shown_token(std::string_view authorization) {
  if (!is_scheme(authorization.substr(0, kScheme.size()))) return {};
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

// Nobody elsewhere can give such a name an address. Browsers always send one.
bool is_of_this_machine(std::string_view host_and_port, const std::string& own_name) {
  if (host_and_port.starts_with('[')) return true;  // an IPv6 address
  std::string host = lower(host_and_port.substr(0, host_and_port.find(':')));
  if (host.ends_with('.')) host.pop_back();
  const std::string own = lower(own_name);
  return host.empty() || host == "localhost" || host.ends_with(".localhost") || host == "localhost.localdomain" ||
         host == own || host == own.substr(0, own.find('.')) || !rendezvous::numeric_addresses(host).empty();
}

}  // namespace

std::optional<HttpResponse> refusal_of(const HttpRequest& request, const std::optional<rendezvous::Token>& token,
                                       const std::string& own_name, bool by_tls) {
  if (!token) {
    if (by_tls || is_of_this_machine(request.host, own_name)) return {};
    return http_line(421,
                     "without --metrics-token-file only requests for localhost, an address or this machine's own name "
                     "are answered");
  }
  if (equal_in_constant_time(shown_token(request.authorization), token->secret())) return {};
  HttpResponse out = http_line(401, request.authorization.empty()
                                        ? "this page needs the job's metrics token: send Authorization: Bearer TOKEN"
                                        : "that is not the job's metrics token: send Authorization: Bearer TOKEN");
  out.header = "WWW-Authenticate: Bearer realm=\"ddprun\"";
  return out;
}

}  // namespace ddprun::agent
