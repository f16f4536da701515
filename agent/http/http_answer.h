// What a client sends to an HTTP/1.1 server, and the head of the answer (RFC 9112). Pure.
//
// An answer's body is not read: the status says whether what was sent has been taken.
#pragma once
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/http/http_url.h"

namespace ddprun::agent {

constexpr std::size_t kAnswerHeadMax = 16 << 10;  // with those that announce the final one (1xx)
constexpr std::chrono::hours kRetryAfterMax{1};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A POST of a JSON text over a connection of its own. `headers`: further ones, of valid names and values.
std::string post_bytes(const HttpUrl& url, const HttpHeaders& headers, const std::string& json);

struct ParsedAnswer {
  enum State { need_more, complete, bad } state = need_more;
  int status = 0;                                        // 200 to 599
  std::optional<std::chrono::seconds> retry_after = {};  // kRetryAfterMax at most
  std::string complaint = {};                            // if it is bad: contains nothing of the answer
};

// `bytes`: all that has come.
ParsedAnswer parse_answer(std::string_view bytes);
// "503 Service Unavailable", or the number alone.
std::string status_in_words(int status);

}  // namespace ddprun::agent
