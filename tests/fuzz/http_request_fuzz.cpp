#include "agent/http/http_request.h"

#include "agent/http/http_access.h"
#include "agent/status/metric_writer.h"
#include "tests/fuzz/fuzz.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace ddprun::fuzz;

namespace {

const std::string kSecret = "00112233445566778899aabbccddeeff";

void check_complete(const std::string& bytes, const ParsedRequest& parsed) {
  promise(parsed.size <= bytes.size() && parsed.size <= kRequestHeadMax, "a request has a limit");
  promise(bytes.compare(parsed.size - 4, 4, "\r\n\r\n") == 0, "a request ends with an empty line");
  promise(parsed.request.path.starts_with('/'), "a path begins with a slash");
  promise(parsed.request.path.find_first_of(" \r\n?") == std::string::npos, "a path is one word");
  promise(parse_request(bytes.substr(0, parsed.size)).request == parsed.request, "what follows a request is not read");
  for (std::size_t part = 0; part < parsed.size; part += 1 + part / 16)
    promise(parse_request(bytes.substr(0, part)).state == ParsedRequest::need_more, "a part of a request needs more");
  metrics_format(parsed.request.accept);
  const auto token = std::get<rendezvous::Token>(rendezvous::Token::parse(kSecret));
  const bool shows = parsed.request.authorization.ends_with(kSecret);
  promise(refusal_of(parsed.request, token, "node1") || shows, "who does not show the token is refused");
}

}  // namespace

DDPRUN_FUZZER(http_request) {
  const std::string bytes = text_of(data, size);
  const ParsedRequest parsed = parse_request(bytes);
  promise((parsed.state == ParsedRequest::bad) == (parsed.status >= 400 && !parsed.complaint.empty()),
          "what is no request is told, and only that");
  promise(parsed.state != ParsedRequest::need_more || size < kRequestHeadMax,
          "what needs more is not too long already");
  if (parsed.state == ParsedRequest::complete) check_complete(bytes, parsed);
  return 0;
}
