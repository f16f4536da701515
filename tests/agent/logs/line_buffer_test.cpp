#include "agent/logs/line_buffer.h"

#include "tests/support/test.h"

namespace {

std::string taken(LineBuffer& buffer, std::string_view bytes, std::string_view prefix = "") {
  std::string out;
  buffer.take(bytes, prefix, out);
  return out;
}

std::string rest_of(LineBuffer& buffer, std::string_view prefix = "", bool end_line = false) {
  std::string out;
  buffer.take_rest(prefix, out, end_line);
  return out;
}

std::string shown_early(LineBuffer& buffer, std::string_view prefix = "") {
  std::string out;
  if (buffer.holds_redraw()) buffer.show_redraw(prefix, out);
  return out;
}

// The same by a dumb way: the whole text at once.
std::string prefixed(const std::string& text, const std::string& prefix) {
  std::string out;
  bool fresh = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (fresh) out += prefix;
    out += text[i];
    fresh = text[i] == '\n' || (text[i] == '\r' && (i + 1 == text.size() || text[i + 1] != '\n'));
  }
  return out;
}

std::string random_text(std::mt19937& random, int size) {
  std::string all;
  for (int i = 0; i < size; ++i) {
    const auto kind = random() % 14;
    all += kind == 0 ? '\n' : kind == 1 ? '\r' : static_cast<char>(random() % 256);
  }
  return all;
}

}  // namespace

TEST_CASE("only whole lines are passed on, the rest at the end", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(taken(buffer, "one\ntw") == "one\n");
  CHECK(taken(buffer, "o") == "");
  CHECK(taken(buffer, "\nthree\nfour\nfi") == "two\nthree\nfour\n");
  CHECK(rest_of(buffer) == "fi");
  CHECK(rest_of(buffer) == "");
}

TEST_CASE("every line has its prefix, the last one also its end", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(taken(buffer, "one\n\ntw", "0:") == "0:one\n0:\n");
  CHECK(taken(buffer, "o\r\nthree", "0:") == "0:two\r\n");
  CHECK(rest_of(buffer, "0:", true) == "0:three\n");
}

TEST_CASE("a progress bar's carriage return ends a line, whichever end of the bar it stands at", "[line_buffer]") {
  LineBuffer before, behind;
  CHECK(taken(before, "\r10%\r20%", "0:") == "0:\r0:10%\r");
  CHECK(taken(behind, "10%\r20%\r", "0:") == "0:10%\r");
  CHECK(taken(behind, "30%\r", "0:") == "0:20%\r");
}

TEST_CASE("a bar that takes its time is shown as it stands, and each state of it once", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(taken(buffer, "starts\n 0", "0:") == "0:starts\n");
  CHECK(shown_early(buffer, "0:") == "");  // no bar: its line may still grow
  CHECK(taken(buffer, "%\r10%", "0:") == "0: 0%\r");
  CHECK(shown_early(buffer, "0:") == "0:10%\r");
  CHECK(shown_early(buffer, "0:") == "");
  CHECK(taken(buffer, "\r20%", "0:") == "");
  CHECK(shown_early(buffer, "0:") == "0:20%\r");
  CHECK(taken(buffer, "\n", "0:") == "0:20%\n");  // for good now
  CHECK(taken(buffer, "1%\r", "0:") == "");
  CHECK(shown_early(buffer, "0:") == "0:1%\r");
  CHECK(taken(buffer, "2%\r", "0:") == "");
  CHECK(rest_of(buffer, "0:", true) == "0:2%\r");
}

TEST_CASE("a line without end does not fill the memory, and is cut where a prefix must follow", "[line_buffer]") {
  LineBuffer buffer, prefixed;
  std::size_t out = 0;
  for (int i = 0; i < 1000; ++i) out += taken(buffer, std::string(10'000, 'x')).size();
  CHECK(out > 10'000'000 - LineBuffer::kBytesMax);
  const std::string long_line(LineBuffer::kBytesMax + 5, 'x');
  CHECK(taken(prefixed, long_line, "0:") == "0:" + long_line + "\n");
  CHECK(taken(prefixed, "y\n", "0:") == "0:y\n");
}

TEST_CASE("no byte is lost or moved, however it is cut, and each line has one prefix", "[line_buffer]") {
  std::mt19937 random(1);
  const std::string all = random_text(random, 20'000), prefix = GENERATE("", "[default0]:");
  LineBuffer buffer;
  std::string out;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t size = 1 + random() % 50;
    out += taken(buffer, std::string_view(all).substr(at, size), prefix);
    at += size;
  }
  CHECK(out + rest_of(buffer, prefix) == prefixed(all, prefix));
}

TEST_CASE("a filter passes on the lines that contain one of its words, as a whole", "[line_buffer]") {
  LineBuffer buffer({"loss", "err"});
  CHECK(taken(buffer, "lo", "0:") == "");
  CHECK(taken(buffer, "ss 1\nstep 2\nan error\nlos\n", "0:") == "0:loss 1\n0:an error\n");
  CHECK(taken(buffer, "loss 2", "0:") == "");
  CHECK(rest_of(buffer, "0:", true) == "0:loss 2\n");
}

TEST_CASE("half a million line ends in a row take no time worth mentioning", "[line_buffer]") {
  LineBuffer buffer;
  CHECK(taken(buffer, std::string(500'000, '\r') + "\n").size() == 500'001);
}

TEST_CASE("the tail of large pieces is the tail of the same in small ones", "[line_buffer]") {
  std::mt19937 random(2);
  for (int round = 0; round < 50; ++round) {
    const std::string all = random_text(random, 3'000);
    Tail large, small;
    for (std::size_t at = 0; at < all.size();) {
      const std::size_t size = 1 + random() % 2'000;
      large.add(std::string_view(all).substr(at, size));
      at += size;
    }
    for (const char c : all) small.add({&c, 1});
    REQUIRE(large.lines() == small.lines());
  }
}

TEST_CASE("the tail holds the last twenty lines, without empty ones, and cuts very long ones", "[line_buffer]") {
  Tail tail, of_long;
  for (int i = 0; i < 50; ++i) tail.add("line " + std::to_string(i) + "\n\n");
  tail.add("half");
  const auto lines = tail.lines();
  REQUIRE(lines.size() == 20);
  CHECK(lines.front() == "line 31");
  CHECK(lines.back() == "half");
  for (int i = 0; i < 100; ++i) of_long.add(std::string(1000, 'x'));
  of_long.add("\nnext\n");
  CHECK(of_long.lines() == std::vector{std::string(Tail::kLineMax, 'x'), std::string("next")});
}

TEST_CASE("the last bytes of a stream are kept, whatever pieces they come in", "[line_buffer]") {
  std::mt19937 random(11);
  LastBytes last;
  std::string all;
  for (int i = 0; i < 300; ++i) {
    const std::string piece(random() % (i % 10 == 0 ? 3 * LastBytes::kBytes : 200), static_cast<char>('a' + i % 26));
    all += piece;
    last.add(piece, TimePoint(std::chrono::seconds(i)));
    CHECK(all.ends_with(last.bytes()));
    CHECK(last.bytes().size() >= std::min(all.size(), LastBytes::kBytes));
    CHECK(last.bytes().size() <= 2 * LastBytes::kBytes);
    CHECK(last.at() == TimePoint(std::chrono::seconds(i)));
  }
}
