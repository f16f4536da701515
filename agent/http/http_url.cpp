#include "agent/http/http_url.h"

#include <algorithm>
#include <charconv>

#include "agent/http/http_syntax.h"
#include "rendezvous/peer/resolve.h"

namespace ddprun::agent {
namespace {

constexpr std::uint16_t kHttpPort = 80, kHttpsPort = 443;
constexpr std::size_t kHostMax = 253;

std::uint16_t usual_port(bool https) { return https ? kHttpsPort : kHttpPort; }

bool is_dns_name(std::string_view text) {
  return !text.empty() && text.size() <= kHostMax && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
}

bool read_port(std::string_view text, std::uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0;
}

// "[::1]:4318" or "collector:4318".
bool read_authority(std::string_view text, HttpUrl& url) {
  std::size_t end = std::min(text.find(':'), text.size());
  if (text.starts_with('[')) {
    const std::size_t bracket = text.find(']');
    if (bracket == text.npos) return false;
    url.host = text.substr(1, bracket - 1);
    if (url.host.find(':') == std::string::npos || rendezvous::numeric_addresses(url.host).empty()) return false;
    end = bracket + 1;
  } else {
    url.host = text.substr(0, end);
    if (!is_dns_name(url.host)) return false;
  }
  const std::string_view port = text.substr(end);
  if (port.empty()) return true;
  return port.starts_with(':') && read_port(port.substr(1), url.port);
}

}  // namespace

std::variant<HttpUrl, std::string> parse_url(std::string_view text) {
  const std::string complaint =
      "it takes http:// or https://, a host, if need be a port and a path, such as http://collector:4318/v1/metrics";
  HttpUrl url;
  const std::string begins = lower(text.substr(0, 8));
  url.https = begins == "https://";
  if (!url.https && !begins.starts_with("http://")) return complaint;
  if (text.size() > kUrlMax) return "it is longer than " + std::to_string(kUrlMax) + " characters";
  if (!is_printable_word(text) || text.find('#') != text.npos) return complaint;
  text.remove_prefix(url.https ? 8 : 7);
  const std::size_t end = std::min(text.find_first_of("/?"), text.size());
  if (text.substr(0, end).find('@') != text.npos)
    return "it holds a user's name or password, which do not belong into a URL: pass them in a header";
  url.port = usual_port(url.https);
  if (!read_authority(text.substr(0, end), url)) return complaint;
  url.target = text.substr(end);
  if (url.target.starts_with('?')) url.target = "/" + url.target;
  return url;
}

std::string host_field(const HttpUrl& url) {
  std::string out = url.host.find(':') == std::string::npos ? url.host : "[" + url.host + "]";
  if (url.port != usual_port(url.https)) out += ":" + std::to_string(url.port);
  return out;
}

std::string shown(const HttpUrl& url) {
  return (url.https ? "https://" : "http://") + host_field(url) + url.target.substr(0, url.target.find('?'));
}

}  // namespace ddprun::agent
