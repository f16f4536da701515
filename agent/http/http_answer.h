// What a client sends to an HTTP/1.1 server, and the head of the answer (RFC 9112). Pure.
//
// The status says whether what was sent has been taken; answer_reader.h reads the body, too.
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

enum class AfterAnswer { close, keep };  // the connection

// A POST of a JSON text. `headers`: further ones, of valid names and values.
std::string post_bytes(const HttpUrl& url, const HttpHeaders& headers, const std::string& json,
                       AfterAnswer after = AfterAnswer::close);

struct ParsedAnswer {
  enum State { need_more, complete, bad } state = need_more;
  int status = 0;                                        // 200 to 599
  std::optional<std::chrono::seconds> retry_after = {};  // kRetryAfterMax at most
  std::string complaint = {};                            // if it is bad: contains nothing of the answer
  std::size_t head_size = 0;                             // the body follows
  std::optional<std::size_t> length = {};                // of the body; empty: chunked, or up to the connection's end
  bool bad_length = false;                               // nobody can tell where the body ends
  bool chunked = false, closes = false;                  // `closes`: the connection ends with the answer
};

// `bytes`: all that has come.
ParsedAnswer parse_answer(std::string_view bytes);
// "503 Service Unavailable", or the number alone.
std::string status_in_words(int status);

}  // namespace ddprun::agent
