#include "rendezvous/peer/token.h"

#include "tests/support/test.h"

namespace {

const std::string kHex = "00112233445566778899aabbccddeeff";

std::string complaint(const std::string& text) {
  const auto parsed = Token::parse(text);
  const auto* wrong = std::get_if<InvalidToken>(&parsed);
  return wrong ? wrong->complaint : "";
}

std::string secret(const std::string& text) { return std::string(std::get<Token>(Token::parse(text)).secret()); }

}  // namespace

TEST_CASE("a token is 32 hex digits or 22 characters of base64, or more", "[token]") {
  for (const std::string& text : {kHex, kHex + "00", std::string("00112233445566778899AABBCCDDEEFF"),
                                  std::string("q83vASNFZ4mrze8BI0VniQ"), std::string("q83vASNFZ4mrze8BI0VniQ=="),
                                  std::string("-8_vASNFZ4mrze8BI0VniQ"), std::string("+8/vASNFZ4mrze8BI0Vni1")}) {
    INFO(text);
    CHECK(complaint(text).empty());
    CHECK(secret(text) == text);
  }
}

TEST_CASE("white space around a token is no part of it", "[token]") {
  CHECK(secret(" \t" + kHex + "\r\n\n") == kHex);
  CHECK(std::get<Token>(Token::parse(kHex + "\n")) == std::get<Token>(Token::parse(kHex)));
}

TEST_CASE("what is no token is told in the rest of a sentence", "[token]") {
  const std::string takes = "it takes at least 32 hex digits or 22 characters of base64, and ";
  CHECK(complaint("") == takes + "it has 0 hex digits");
  CHECK(complaint(kHex.substr(1)) == takes + "it has 31 hex digits");
  CHECK(complaint("q83vASNFZ4mrze8BI0Vni") == takes + "it has 21");
  CHECK(complaint("q83vASNFZ4mrze8BI0Vni==") == takes + "it has 21");
  CHECK(complaint(kHex + "!") == takes + "character 33 of it is neither");
  CHECK(complaint("=" + kHex) == takes + "character 1 of it is neither");
  CHECK(complaint(kHex + "\n" + kHex) == takes + "character 33 of it is neither");
  CHECK(complaint(kHex + std::string(1, '\0')) == takes + "character 33 of it is neither");
  CHECK(complaint(std::string(2000, 'x') + kHex) == "it takes at most 1024 characters");
  for (const char* silly : {"00000000000000000000000000000000", "deadbeefdeadbeefdeadbeefdeadbeef",
                            "passwordpasswordpassword", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa="})
    CHECK_FALSE(complaint(silly).empty());
}

TEST_CASE("no complaint holds a part of the token", "[token]") {
  const std::string almost = "q83vASNFZ4mrze8BI0Vni";
  for (const std::string& text : {almost, almost + "?" + almost, kHex + "\x1b", std::string(1025, 'q') + almost}) {
    const std::string said = complaint(text);
    CHECK_FALSE(said.empty());
    for (std::size_t i = 0; i + 4 <= text.size(); ++i) CHECK(said.find(text.substr(i, 4)) == std::string::npos);
  }
}

TEST_CASE("a made token is one, and never the same", "[token]") {
  const std::string first = make_token(), second = make_token();
  CHECK(first.size() == 64);
  CHECK(first.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(secret(first) == first);
  CHECK(first != second);
}

TEST_CASE("a text that held a token is overwritten", "[token]") {
  std::string text = kHex;
  const char* const characters = text.data();
  wipe(text);
  CHECK(text.empty());
  CHECK(std::string(characters, kHex.size()) == std::string(kHex.size(), '\0'));
}

TEST_CASE("a token is a value", "[token]") {
  Token token = std::get<Token>(Token::parse(kHex));
  const Token copy = token;
  token = std::get<Token>(Token::parse(make_token()));
  CHECK(copy.secret() == kHex);
  CHECK_FALSE(token == copy);
  const Token moved = std::move(token);
  CHECK(moved.secret().size() == 64);
}
