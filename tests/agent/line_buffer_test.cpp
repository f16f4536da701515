#include "agent/line_buffer.h"

#include <random>

#include "tests/support/catch.h"

using namespace ddprun;

TEST_CASE("only whole lines are passed on, the rest at the end", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(buffer.take("one\ntw") == "one\n");
  CHECK(buffer.take("o") == "");
  CHECK(buffer.take("\nthree\nfour\nfi") == "two\nthree\nfour\n");
  CHECK(buffer.take_rest() == "fi");
  CHECK(buffer.take_rest() == "");
}

TEST_CASE("a progress bar's carriage return ends a line", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(buffer.take("10%\r20%") == "10%\r");
}

TEST_CASE("a line without end does not fill the memory", "[line_buffer]") {
  LineBuffer buffer;
  std::size_t out = 0;
  for (int i = 0; i < 100; ++i) out += buffer.take(std::string(10'000, 'x')).size();
  CHECK(out > 900'000);
}

TEST_CASE("no byte is lost or moved, however it is cut", "[line_buffer]") {
  std::mt19937 random(1);
  std::string all;
  for (int i = 0; i < 20'000; ++i) all += static_cast<char>(random() % 7 == 0 ? '\n' : random() % 256);
  LineBuffer buffer;
  std::string out;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t size = 1 + random() % 50;
    out += buffer.take(std::string_view(all).substr(at, size));
    at += size;
  }
  CHECK(out + buffer.take_rest() == all);
}

TEST_CASE("the tail holds the last twenty lines, without empty ones", "[line_buffer]") {
  Tail tail;
  for (int i = 0; i < 50; ++i) tail.add("line " + std::to_string(i) + "\n\n");
  tail.add("half");
  const auto lines = tail.lines();
  REQUIRE(lines.size() == 20);
  CHECK(lines.front() == "line 31");
  CHECK(lines.back() == "half");
}

TEST_CASE("a very long line is cut in the tail", "[line_buffer]") {
  Tail tail;
  for (int i = 0; i < 100; ++i) tail.add(std::string(1000, 'x'));
  tail.add("\nnext\n");
  const auto lines = tail.lines();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].size() == Tail::kLineMax);
  CHECK(lines[1] == "next");
}
