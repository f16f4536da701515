#include "agent/http/http_response.h"

namespace ddprun::agent {

const char* reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 421:
      return "Misdirected Request";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

HttpResponse http_line(int status, const std::string& text) {
  return {.status = status, .body = std::to_string(status) + ": " + text + ".\n"};
}

std::string to_bytes(const HttpResponse& response, const HttpSending& sending) {
  std::string out = "HTTP/1.1 " + std::to_string(response.status) + " " + reason_phrase(response.status) + "\r\n";
  out += "Content-Type: " + response.content_type + "\r\n";
  if (!response.stream) out += "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
  out += "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n";
  if (!response.header.empty()) out += response.header + "\r\n";
  out += sending.keep_alive && !response.stream ? "\r\n" : "Connection: close\r\n\r\n";
  if (!sending.head_only) out += response.body;
  return out;
}

}  // namespace ddprun::agent
