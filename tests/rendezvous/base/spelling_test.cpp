#include "rendezvous/base/spelling.h"

#include "rendezvous/base/print_line.h"

#include "tests/support/test.h"

TEST_CASE("what would act on a terminal is shown, and other text stays as it is", "[spelling]") {
  CHECK(visible("rank 0: \x1b[2J\r\n\t\x7f") == R"(rank 0: \x1b[2J\x0d\x0a\x09\x7f)");
  CHECK(visible("\x9b"
                "31m") == R"(\x9b31m)");  // CSI as one byte
  CHECK(visible("a\xc2\x9b"
                "31m\xc2\x85") == R"(a\xc2\x9b31m\xc2\x85)");  // CSI and NEL as UTF-8 has them
  for (const char* text : {"", "plain", "Größe 10 µm, 模型, 🚀", "\xc2\xa0", "\xf4\x8f\xbf\xbf", "'\\x1b'"})
    CHECK(visible(text) == text);
}

TEST_CASE("bytes that are no UTF-8 are shown", "[spelling]") {
  CHECK(visible("caf\xe9") == R"(caf\xe9)");
  CHECK(visible("\xc3") == R"(\xc3)");  // cut off
  CHECK(visible("\xe6\xa8") == R"(\xe6\xa8)");
  CHECK(visible("\xc0\x9b") == R"(\xc0\x9b)");  // ESC the long way
  CHECK(visible("\xe0\x80\x9b") == R"(\xe0\x80\x9b)");
  CHECK(visible("\xf0\x80\x80\x9b") == R"(\xf0\x80\x80\x9b)");
  CHECK(visible("\xed\xa0\x80") == R"(\xed\xa0\x80)");  // half of a pair of UTF-16
  CHECK(visible("\xf4\x90\x80\x80") == R"(\xf4\x90\x80\x80)");
  CHECK(visible(std::string("a\0b", 3)) == R"(a\x00b)");
}

TEST_CASE("of a text of several lines the line ends and tabs stay", "[spelling]") {
  CHECK(visible_lines("one\n\ttwo\x1b\r\n\x9b") == "one\n\ttwo\\x1b\\x0d\n\\x9b");
}

TEST_CASE("a line that is printed acts on no terminal", "[spelling]") {
  std::FILE* const file = std::tmpfile();
  REQUIRE(file);
  print_line(file, "no such file: a\x1b[31m\n\tb\xc2\x9b");
  std::rewind(file);
  char text[100] = "";
  const std::size_t size = std::fread(text, 1, sizeof text, file);
  std::fclose(file);
  CHECK(std::string(text, size) == "no such file: a\\x1b[31m\n\tb\\xc2\\x9b\n");
}
