// The answer to an HTTP request, and its bytes (RFC 9112). Pure.
#pragma once
#include <string>
#include <string_view>

namespace ddprun::agent {

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
  std::string header = {};  // a further one, "Allow: GET, HEAD"; empty: none
  bool stream = false;      // the body goes on until the connection is closed
};

// RFC 9110, 15: "Not Found"; "Error" for a status that is not used here.
const char* reason_phrase(int status);

// A line of text: "404: there is no such page".
HttpResponse http_line(int status, const std::string& text);

// What a response is sent for and with.
struct HttpSending {
  bool head_only = false;   // the answer to HEAD: all but the body
  bool keep_alive = false;  // another request may follow
};
std::string to_bytes(const HttpResponse& response, const HttpSending& sending);

}  // namespace ddprun::agent
