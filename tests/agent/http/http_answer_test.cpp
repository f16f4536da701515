#include "agent/http/http_answer.h"

#include "tests/support/test.h"

namespace {

HttpUrl url_of(const std::string& text) {
  const auto read = parse_url(text);
  CAPTURE(text);
  REQUIRE(std::holds_alternative<HttpUrl>(read));
  return std::get<HttpUrl>(read);
}

bool is_refused(const std::string& text) { return std::holds_alternative<std::string>(parse_url(text)); }

bool is_bad(const std::string& bytes) {
  const ParsedAnswer answer = parse_answer(bytes);
  return answer.state == ParsedAnswer::bad && !answer.complaint.empty();
}

const std::string kOk = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n";

}  // namespace

TEST_CASE("a URL has a host, a port and a target, and nothing else", "[http][client]") {
  CHECK(url_of("http://collector:4318/v1/metrics") == HttpUrl{false, "collector", 4318, "/v1/metrics"});
  CHECK(url_of("HTTPS://a.b_c-d.example") == HttpUrl{true, "a.b_c-d.example", 443, ""});
  CHECK(url_of("http://[::1]:80?key=1") == HttpUrl{false, "::1", 80, "/?key=1"});
  CHECK(host_field(url_of("http://[::1]:80/")) == "[::1]");
  CHECK(host_field(url_of("https://n1:80/")) == "n1:80");
  CHECK(shown(url_of("https://n1/a/b?secret=1")) == "https://n1/a/b");
  for (const char* wrong :
       {"", "http://", "collector:4318", "ftp://a/", "http:///v1", "http://a:0/", "http://a:65536/", "http://a:x/",
        "http://a:/", "http://[::1", "http://[n1]/", "http://[::1]x/", "http://u:p@a/", "http://a/b#c", "http://a/ b",
        "http://a/\n", "http://a\r\nHost: b/", "http://\xc3\xa4/"})
    CHECK(is_refused(wrong));
  CHECK(is_refused("http://a/" + std::string(kUrlMax, 'x')));
  CHECK(std::get<std::string>(parse_url("http://me:word@a/")).find("word@") == std::string::npos);
}

TEST_CASE("a POST names its host, its length and that the connection ends", "[http][client]") {
  CHECK(post_bytes(url_of("http://[::1]:4318/v1/metrics?a=b"), {{"api-key", "x"}}, "{}") ==
        "POST /v1/metrics?a=b HTTP/1.1\r\nHost: [::1]:4318\r\nConnection: close\r\n"
        "Content-Type: application/json\r\nContent-Length: 2\r\napi-key: x\r\n\r\n{}");
  CHECK(post_bytes(url_of("http://a"), {}, "").starts_with("POST / HTTP/1.1\r\nHost: a\r\n"));
}

TEST_CASE("the status of an answer is known with the end of its head", "[http][client]") {
  for (std::size_t part = 0; part < kOk.size(); ++part)
    CHECK(parse_answer(kOk.substr(0, part)).state == ParsedAnswer::need_more);
  CHECK(parse_answer(kOk).status == 200);
  CHECK(parse_answer(kOk + "body").status == 200);
  CHECK(parse_answer("HTTP/1.0 404\r\n\r\n").status == 404);
  const ParsedAnswer later = parse_answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 No\r\nretry-AFTER:  7 \r\n\r\n");
  CHECK(later.status == 503);
  CHECK(later.retry_after == 7s);
  CHECK(parse_answer("HTTP/1.1 100 Continue\r\n\r\n").state == ParsedAnswer::need_more);
}

TEST_CASE("a server's wish to be left alone has a limit", "[http][client]") {
  const auto wish = [](const std::string& value) {
    return parse_answer("HTTP/1.1 429 Slow\r\nRetry-After: " + value + "\r\n\r\n").retry_after;
  };
  CHECK(wish("0") == 0s);
  CHECK(wish("86400") == 3600s);
  CHECK(wish("99999999999999999999999") == 3600s);
  for (const char* none : {"", "-1", "Wed, 21 Oct 2026 07:28:00 GMT", "1.5", "7s"}) CHECK_FALSE(wish(none));
}

TEST_CASE("a date until which a server wants to be left alone is read by the server's clock", "[http][client]") {
  const auto wish = [](const std::string& until, const std::string& now) {
    return parse_answer("HTTP/1.1 503 No\r\nRetry-After: " + until + "\r\nDate: " + now + "\r\n\r\n").retry_after;
  };
  CHECK(wish("Sun, 01 Mar 2026 00:00:07 GMT", "Sat, 28 Feb 2026 23:59:58 GMT") == 9s);
  CHECK(wish("Sat, 28 Feb 2026 23:59:58 GMT", "Sun, 01 Mar 2026 00:00:07 GMT") == 0s);
  CHECK(wish("Sun, 01 Mar 2026 00:00:07 GMT", "Sun, 01 Mar 2020 00:00:07 GMT") == 3600s);
  CHECK(wish("9", "Sun, 01 Mar 2026 00:00:07 GMT") == 9s);
  CHECK_FALSE(wish("Sun, 01 Mar 2026 00:00:07 GMT", "today"));
  CHECK_FALSE(wish("Sun, 01 Mar 2026 00:00:07", "Sat, 28 Feb 2026 23:59:58 GMT"));
}

TEST_CASE("what is not an answer of HTTP/1.1 is bad", "[http][client]") {
  for (const char* wrong :
       {"SSH-2.0-OpenSSH\r\n", "\x15\x03\x03", "HTTP/2 200\r\n\r\n", "HTTP/1.1 20\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n",
        "HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 600 x\r\n\r\n", "HTTP/1.1 101 x\r\n\r\n", "HTTP/1.1  200\r\n\r\n",
        "HTTP/1.2 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nbad header\r\n\r\n", "HTTP/1.1 200 OK\r\n: x\r\n\r\n"})
    CHECK(is_bad(wrong));
  CHECK(is_bad("HTTP/1.1 200 OK\r\na: " + std::string(kAnswerHeadMax, 'x')));
  std::string announced;
  while (announced.size() < kAnswerHeadMax) announced += "HTTP/1.1 103 Early\r\n\r\n";
  CHECK(is_bad(announced));
}
