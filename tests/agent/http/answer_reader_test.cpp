#include "agent/http/answer_reader.h"

#include "tests/support/test.h"

namespace {

// In pieces of so many bytes, and then the connection's end.
AnswerReader read_in_pieces(const std::string& bytes, std::size_t size, std::string* body = nullptr) {
  AnswerReader reader;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    reader.take(std::string_view(bytes).substr(at, size));
    if (body) *body += reader.take_body();
  }
  return reader;
}

const std::string kOkHead = "HTTP/1.1 200 OK\r\n", kChunked = kOkHead + "Transfer-Encoding: chunked\r\n\r\n";

std::string complaint_about(const std::string& bytes) {
  const AnswerReader reader = read_in_pieces(bytes, bytes.size());
  return reader.state() == ParsedAnswer::bad ? reader.head().complaint : "it is not bad";
}

}  // namespace

TEST_CASE("an answer's body is the same in whatever pieces it comes", "[http]") {
  const std::pair<std::string, std::string> answers[] = {
      {kOkHead + "Content-Length: 5\r\n\r\nhello", "hello"},
      {kOkHead + "Content-Length: 0\r\n\r\n", ""},
      {"HTTP/1.1 100 Continue\r\n\r\n" + kOkHead + "Content-Length: 2\r\n\r\n{}", "{}"},
      {kChunked + "3\r\nabc\r\n0A;x=y\r\n0123456789\r\n0\r\nGrpc-Trailer: x\r\n\r\n", "abc0123456789"},
      {kChunked + "0\r\n\r\n", ""},
  };
  for (const auto& [bytes, expected] : answers)
    for (std::size_t size = 1; size <= bytes.size(); ++size) {
      CAPTURE(bytes, size);
      std::string body;
      const AnswerReader reader = read_in_pieces(bytes, size, &body);
      CHECK(reader.state() == ParsedAnswer::complete);
      CHECK(reader.keeps_connection());
      CHECK(body == expected);
      CHECK(read_in_pieces(bytes.substr(0, bytes.size() - 1), size).state() == ParsedAnswer::need_more);
    }
}

TEST_CASE("an answer may end with its connection, and only then", "[http]") {
  std::string body;
  AnswerReader reader = read_in_pieces("HTTP/1.0 400 Bad\r\n\r\nno", 4, &body);
  CHECK(reader.state() == ParsedAnswer::need_more);
  reader.end();
  CHECK(reader.state() == ParsedAnswer::complete);
  CHECK(reader.head().status == 400);
  CHECK(body == "no");
  CHECK_FALSE(reader.keeps_connection());
  for (const std::string& cut : {kChunked + "3\r\nab", kOkHead + "Content-Length: 5\r\n\r\nhell", kOkHead}) {
    AnswerReader half = read_in_pieces(cut, cut.size());
    half.end();
    CHECK(half.state() == ParsedAnswer::need_more);
  }
}

TEST_CASE("a connection is not kept if the server closes it or has sent more", "[http]") {
  for (const std::string& last :
       {kOkHead + "Connection: Close\r\nContent-Length: 0\r\n\r\n",
        std::string("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"), kOkHead + "Content-Length: 0\r\n\r\nHTTP"}) {
    CAPTURE(last);
    const AnswerReader reader = read_in_pieces(last, last.size());
    CHECK(reader.state() == ParsedAnswer::complete);
    CHECK_FALSE(reader.keeps_connection());
  }
}

TEST_CASE("a body without a length that can be trusted is refused", "[http]") {
  const std::string unknown = "its answer does not tell its length as in HTTP/1.1", large = "its answer is too large";
  CHECK(complaint_about(kOkHead + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n") == unknown);
  CHECK(complaint_about(kOkHead + "Content-Length: -1\r\n\r\n") == unknown);
  CHECK(complaint_about(kOkHead + "Content-Length: 99999999999999999999\r\n\r\n") == unknown);
  CHECK(complaint_about(kOkHead + "Transfer-Encoding: gzip\r\n\r\n") == unknown);
  CHECK(complaint_about(kOkHead + "Content-Length: 4000000\r\n\r\n") == large);
  CHECK(complaint_about(kChunked + "ffffffff\r\n") == large);
  CHECK(complaint_about(kChunked + "fffffffffffffffffff\r\n") == "its answer has no chunks");
  CHECK(complaint_about(kChunked + "x\r\n") == "its answer has no chunks");
  CHECK(complaint_about(kChunked + "\r\n") == "its answer has no chunks");
  CHECK(complaint_about(kChunked + std::string(5000, '0')) == "its answer has no chunks");
  CHECK(complaint_about(kChunked + "1\r\nab\r\n") == "its answer has a wrong chunk");
  CHECK(complaint_about(kOkHead + "\r\n" + std::string(4 << 20, 'x')) == large);
  // Whoever wants the status alone gets it.
  CHECK(parse_answer(kOkHead + "Transfer-Encoding: gzip\r\n\r\n").status == 200);
}
