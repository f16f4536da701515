#include "agent/http/http_request.h"

#include <algorithm>
#include <optional>

#include "agent/http/http_syntax.h"

namespace ddprun::agent {
namespace {

constexpr std::string_view kLineEnd = "\r\n", kHeadEnd = "\r\n\r\n";
constexpr int kBadRequest = 400, kTooLarge = 413, kLineTooLong = 414, kHeadTooLarge = 431, kOtherVersion = 505;

// Whether a comma-separated list has that word.
bool lists(std::string_view list, std::string_view word) {
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    if (lower(without_padding(list.substr(at, comma - at))) == word) return true;
    at = comma + 1;
  }
  return false;
}

ParsedRequest refused(int status, const char* complaint) {
  return {.state = ParsedRequest::bad, .status = status, .complaint = complaint};
}

// Collects what the headers say. Every function returns a refusal, or nothing.
class Head {
 public:
  using Refusal = std::optional<ParsedRequest>;

  Refusal take_request_line(std::string_view line) {
    const std::size_t first = line.find(' '), second = line.find(' ', first + 1);
    if (first == line.npos || second == line.npos)
      return refused(kBadRequest, "the first line is not METHOD PATH HTTP/1.1");
    const std::string_view target = line.substr(first + 1, second - first - 1), version = line.substr(second + 1);
    if (!is_token(line.substr(0, first))) return refused(kBadRequest, "the method holds a character that none has");
    if (!version.starts_with("HTTP/")) return refused(kBadRequest, "the first line is not METHOD PATH HTTP/1.1");
    if (version != "HTTP/1.1" && version != "HTTP/1.0")
      return refused(kOtherVersion, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    request_.method = line.substr(0, first);
    is_1_0_ = version == "HTTP/1.0";
    return take_target(target);
  }

  Refusal take_header(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon)))
      return refused(kBadRequest, "a header's line is not NAME: VALUE");
    const std::string_view value = without_padding(line.substr(colon + 1));
    if (!is_field_value(value)) return refused(kBadRequest, "a header's value holds a control character");
    const std::string name = lower(line.substr(0, colon));
    if (name == "host") return take_once(host_, value, "there are several Host headers");
    if (name == "authorization") return take_once(authorization_, value, "there are several Authorization headers");
    if (name == "transfer-encoding" || (name == "content-length" && value != "0"))
      return refused(kTooLarge, "a request here has no body");
    if (name == "accept") request_.accept += (request_.accept.empty() ? "" : ", ") + std::string(value);
    if (name == "connection") connection_ += (connection_.empty() ? "" : ",") + std::string(value);
    return {};
  }

  Refusal finish() {
    if (!is_1_0_ && !host_) return refused(kBadRequest, "HTTP/1.1 needs a Host header");
    request_.authorization = authorization_.value_or("");
    request_.host = host_.value_or("");
    request_.keep_alive = !is_1_0_ && !lists(connection_, "close");
    return {};
  }

  HttpRequest take() { return std::move(request_); }

 private:
  // "/metrics", or as proxies send it "http://node1:9100/metrics".
  Refusal take_target(std::string_view target) {
    if (!is_printable_word(target))
      return refused(kBadRequest, "the path holds a character that must be written as %XX");
    const std::size_t colon = std::min(target.find("://"), target.size());
    if (const std::string scheme = lower(target.substr(0, colon));
        colon < target.size() && (scheme == "http" || scheme == "https")) {
      target.remove_prefix(colon + 3);
      target.remove_prefix(std::min(target.find_first_of("/?"), target.size()));
      if (!target.starts_with('/')) target = "/";
    }
    if (!target.starts_with('/')) return refused(kBadRequest, "the path does not begin with /");
    request_.path = target.substr(0, target.find('?'));
    return {};
  }

  static Refusal take_once(std::optional<std::string>& to, std::string_view value, const char* complaint) {
    if (to) return refused(kBadRequest, complaint);
    to = value;
    return {};
  }

  HttpRequest request_;
  bool is_1_0_ = false;
  std::optional<std::string> host_, authorization_;
  std::string connection_;
};

ParsedRequest parse_head(std::string_view head) {
  Head out;
  std::size_t headers = 0;
  for (std::size_t at = 0; at < head.size();) {
    const std::size_t end = std::min(head.find(kLineEnd, at), head.size());
    const std::string_view line = head.substr(at, end - at);
    if (at > 0 && ++headers > kRequestHeadersMax) return refused(kHeadTooLarge, "the request has too many headers");
    if (auto refusal = at == 0 ? out.take_request_line(line) : out.take_header(line)) return *refusal;
    at = end + kLineEnd.size();
  }
  if (auto refusal = out.finish()) return *refusal;
  return {.state = ParsedRequest::complete, .request = out.take(), .size = head.size() + kHeadEnd.size()};
}

}  // namespace

ParsedRequest parse_request(std::string_view bytes) {
  if (!bytes.empty() && !is_token(bytes.substr(0, 1)))  // as with TLS, which is not for this port
    return refused(kBadRequest, "this port speaks HTTP, and that is not HTTP");
  if (bytes.substr(0, kRequestLineMax + kLineEnd.size()).find(kLineEnd) == bytes.npos)
    return bytes.size() < kRequestLineMax + kLineEnd.size()
               ? ParsedRequest{}
               : refused(kLineTooLong, "the request's first line is too long");
  const std::size_t end = bytes.substr(0, kRequestHeadMax).find(kHeadEnd);
  if (end != bytes.npos) return parse_head(bytes.substr(0, end));
  return bytes.size() < kRequestHeadMax ? ParsedRequest{}
                                        : refused(kHeadTooLarge, "the request's headers are too large");
}

}  // namespace ddprun::agent
