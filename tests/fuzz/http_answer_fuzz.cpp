#include "agent/http/http_answer.h"

#include "tests/fuzz/fuzz.h"

using namespace ddprun::agent;
using namespace ddprun::fuzz;

namespace {

void check_url(const std::string& text) {
  const auto read = parse_url(text);
  const HttpUrl* url = std::get_if<HttpUrl>(&read);
  if (!url) return promise(!std::get<std::string>(read).empty(), "what is no URL is told");
  promise(url->port > 0 && !url->host.empty(), "a URL has a host and a port");
  const std::string bytes = post_bytes(*url, {}, "{}");
  promise(bytes.find("\r\n\r\n") == bytes.size() - 6, "no URL adds a header");
  promise(std::get<HttpUrl>(parse_url(shown(*url))).host == url->host, "what is shown is a URL");
}

}  // namespace

DDPRUN_FUZZER(http_answer) {
  const std::string bytes = text_of(data, size);
  const ParsedAnswer answer = parse_answer(bytes);
  promise((answer.state == ParsedAnswer::bad) == !answer.complaint.empty(), "what is no answer is told, and only that");
  promise(answer.state != ParsedAnswer::need_more || size < kAnswerHeadMax, "what needs more is not too long already");
  if (answer.state == ParsedAnswer::complete) {
    promise(answer.status >= 200 && answer.status <= 599, "an answer is a final one");
    promise(!answer.retry_after || (answer.retry_after->count() >= 0 && *answer.retry_after <= kRetryAfterMax),
            "a wish has limits");
    promise(parse_answer(bytes + "x").status == answer.status, "what follows a head is not read");
  }
  check_url(bytes);
  return 0;
}
