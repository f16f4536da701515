#include "agent/http/http_request.h"

#include "agent/http/http_access.h"
#include "tests/support/test.h"

namespace {

const std::string kHead = "GET /metrics HTTP/1.1\r\nHost: node1:9100\r\n";

HttpRequest read(const std::string& head) {
  const std::string bytes = head + "\r\n";
  const ParsedRequest parsed = parse_request(bytes);
  CAPTURE(bytes, parsed.complaint);
  REQUIRE(parsed.state == ParsedRequest::complete);
  CHECK(parsed.size == bytes.size());
  for (std::size_t part = 0; part < bytes.size(); ++part)
    CHECK(parse_request(bytes.substr(0, part)).state == ParsedRequest::need_more);
  return parsed.request;
}

int status_of(const std::string& bytes) {
  const ParsedRequest parsed = parse_request(bytes);
  CAPTURE(bytes);
  CHECK(parsed.state == ParsedRequest::bad);
  CHECK_FALSE(parsed.complaint.empty());
  return parsed.status;
}

int status_with(const std::string& header) { return status_of(kHead + header + "\r\n\r\n"); }

}  // namespace

TEST_CASE("a request is read as it was sent, byte by byte too", "[http]") {
  HttpRequest expected{.method = "GET", .path = "/metrics", .host = "node1:9100", .keep_alive = true};
  CHECK(read(kHead) == expected);
  expected.accept = "text/plain, */*;q=0.1";
  expected.authorization = "Bearer abc";
  expected.keep_alive = false;
  CHECK(read(kHead + "ACCEPT: text/plain\r\naccept:\t*/*;q=0.1 \r\nX-Other: \xc3\xa4\r\n" +
             "Authorization:  Bearer abc\r\nConnection: TE, Close\r\nContent-Length: 0\r\n") == expected);
}

TEST_CASE("a path ends before its question mark, and a proxy's form of it is understood", "[http]") {
  const auto path_of = [](const std::string& target) {
    return read("GET " + target + " HTTP/1.1\r\nHost: a\r\n").path;
  };
  CHECK(path_of("/status?pretty=1") == "/status");
  CHECK(path_of("/a%20b") == "/a%20b");
  CHECK(path_of("http://node1:9100/metrics?x") == "/metrics");
  CHECK(path_of("HTTPS://node1") == "/");
  CHECK(path_of("http://node1?x=/y") == "/");
}

TEST_CASE("an HTTP/1.0 connection ends with its answer, and needs no Host", "[http]") {
  CHECK_FALSE(read("HEAD / HTTP/1.0\r\n").keep_alive);
  CHECK_FALSE(read("GET / HTTP/1.0\r\nConnection: keep-alive\r\n").keep_alive);
}

TEST_CASE("what follows a request is left for the next one", "[http]") {
  const std::string one = kHead + "\r\n";
  CHECK(parse_request(one + one).size == one.size());
  CHECK(parse_request(one + std::string(kRequestHeadMax, 'x')).size == one.size());
}

TEST_CASE("a request that is none is refused, with the status that says why", "[http]") {
  for (const char* wrong :
       {"\x16\x03\x01" /* TLS */, " ", "GET /\r\n\r\n", "GET / x HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\n\r\n",
        "G\tT / HTTP/1.1\r\nHost: a\r\n\r\n", "GET metrics HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http HTTP/1.1\r\nHost: a\r\n\r\n", "GET ftp://a/b HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"})
    CHECK(std::pair(wrong, status_of(wrong)) == std::pair(wrong, 400));
  CHECK(status_of("GET / HTTP/2.0\r\nHost: a\r\n\r\n") == 505);
  CHECK(status_of("GET / HTTP/1.1 \r\nHost: a\r\n\r\n") == 505);
  for (const std::string& header :
       {std::string("Host: b"), std::string("Authorization: a\r\nAuthorization: b"), std::string("no colon"),
        std::string("Accept : x"), std::string(" folded: x"), std::string(": x"), std::string("Accept: a\rb"),
        std::string("Accept: a\nb"), std::string("Accept: a\0b", 11)})
    CHECK(std::pair(header, status_with(header)) == std::pair(header, 400));
}

TEST_CASE("a request with a body is refused before its body is read", "[http]") {
  for (const char* header : {"Content-Length: 1", "Content-Length: 0\r\nContent-Length: 5", "Content-Length: 00",
                             "Transfer-Encoding: chunked"})
    CHECK(status_with(header) == 413);
}

TEST_CASE("a request that is too long is refused before its end", "[http]") {
  const auto line_of = [](std::size_t size) { return "GET /" + std::string(size - 14, 'a') + " HTTP/1.1"; };
  CHECK(read(line_of(kRequestLineMax) + "\r\nHost: a\r\n").path.size() == kRequestLineMax - 13);
  CHECK(status_of(line_of(kRequestLineMax + 1) + "\r\nHost: a\r\n\r\n") == 414);
  CHECK(status_of(std::string(kRequestLineMax + 2, 'a')) == 414);

  const auto padded = [](std::size_t size) {
    const std::string head = kHead + "X: ";
    return head + std::string(size - head.size() - 4, 'a') + "\r\n\r\n";
  };
  CHECK(parse_request(padded(kRequestHeadMax)).state == ParsedRequest::complete);
  CHECK(status_of(padded(kRequestHeadMax + 1)) == 431);
  CHECK(status_of(kHead + std::string(kRequestHeadMax, 'a')) == 431);

  std::string headers = "Host: a\r\n";
  for (std::size_t i = 1; i < kRequestHeadersMax; ++i) headers += "A: b\r\n";
  CHECK(read("GET / HTTP/1.1\r\n" + headers).path == "/");
  CHECK(status_of("GET / HTTP/1.1\r\n" + headers + "A: b\r\n\r\n") == 431);
}

TEST_CASE("who shows the token is answered, and nobody else", "[http]") {
  const std::string secret = "00112233445566778899aabbccddeeff", close = "00112233445566778899aabbccddeefe";
  const auto refusal = [&](const std::string& authorization) {
    return refusal_of({.method = "GET", .path = "/", .authorization = authorization},
                      std::get<Token>(Token::parse(secret)), "node1");
  };
  CHECK_FALSE(refusal("Bearer " + secret));
  CHECK_FALSE(refusal("bearer  " + secret));
  CHECK_FALSE(refusal_of({.method = "GET", .path = "/"}, {}, "node1"));
  for (const std::string& wrong :
       {std::string(), secret, "Basic " + secret, std::string("Bearer"), std::string("Bearer "), "Bearer " + close,
        "Bearer " + secret + "0", "Bearer " + secret.substr(1), "Bearer " + secret + secret}) {
    CAPTURE(wrong);
    const auto refused = refusal(wrong);
    REQUIRE(refused);
    CHECK(refused->status == 401);
    CHECK(refused->header == "WWW-Authenticate: Bearer realm=\"ddprun\"");
    CHECK(refused->body.find("send Authorization: Bearer TOKEN") != std::string::npos);
    CHECK(refused->body.find(secret) == std::string::npos);
  }
}

TEST_CASE("without a token only names that nobody elsewhere can give an address are answered", "[http]") {
  const auto refusal = [](const std::string& host) {
    return refusal_of(read("GET /status HTTP/1.1\r\nHost: " + host + "\r\n"), {}, "Node1.cluster");
  };
  for (const char* own :
       {"localhost", "LocalHost:9100", "job.localhost:9100", "localhost.localdomain", "127.0.0.1:9100", "10.0.0.4",
        "[::1]:9100", "node1:9100", "NODE1", "node1.cluster:9100", "node1.cluster.", "localhost.:9100", ""}) {
    CAPTURE(own);
    CHECK_FALSE(refusal(own));
  }
  for (const char* other : {"rebound.example", "rebound.example:9100", "127.0.0.1.rebound.example", "localhost.example",
                            "rebound.notlocalhost", "rebound.example.:9100", "rebound", "rebound:9100", "node11",
                            "node1.example", "cluster"}) {
    CAPTURE(other);
    REQUIRE(refusal(other));
    CHECK(refusal(other)->status == 421);
    CHECK_FALSE(refusal_of({.method = "GET", .path = "/", .host = other}, {}, "node1", /*by_tls=*/true));
  }
}

TEST_CASE("an answer says its length, its kind and whether another request may follow", "[http]") {
  CHECK(to_bytes(http_line(404, "nothing is there"), {.keep_alive = true}) ==
        "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 23\r\n"
        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n404: nothing is there.\n");
  const std::string head = to_bytes({.status = 200, .body = "abc", .header = "Allow: GET"}, {.head_only = true});
  CHECK(head.find("Content-Length: 3\r\n") != std::string::npos);
  CHECK(head.ends_with("Allow: GET\r\nConnection: close\r\n\r\n"));
}
