// The head of an HTTP/1.0 or HTTP/1.1 request (RFC 9112), without a body: no request here has one. Pure.
//
// Strict: lines end with CR LF, no line is folded, and names and values hold only the characters that RFC 9110 allows.
// What a stricter peer would refuse is refused, so nothing between us and a client can read a request in another way.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun::agent {

constexpr std::size_t kRequestLineMax = 2 << 10;
constexpr std::size_t kRequestHeadMax = 8 << 10;  // with the request line
constexpr std::size_t kRequestHeadersMax = 64;

struct HttpRequest {
  std::string method;         // as it was sent: "GET"
  std::string path;           // "/metrics", without "?" and what follows; not decoded
  std::string accept = {};    // empty: not sent. Several headers are joined by commas
  std::string authorization;  // empty: not sent
  std::string host = {};      // of the Host header, with its port; empty: not sent
  bool keep_alive = true;     // the client wants to send another request

  friend bool operator==(const HttpRequest&, const HttpRequest&) = default;
};

struct ParsedRequest {
  enum State { need_more, complete, bad } state = need_more;
  HttpRequest request = {};    // if it is complete
  std::size_t size = 0;        // of its bytes, if it is complete; another request may follow them
  int status = 0;              // if it is bad: the answer's, 400 to 505
  std::string complaint = {};  // if it is bad: a sentence that contains nothing of the request
};

// `bytes`: all that has come since the last request. Needs at most kRequestHeadMax of them.
ParsedRequest parse_request(std::string_view bytes);

}  // namespace ddprun::agent
