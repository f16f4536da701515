// What an agent keeps of its workers' output, and how it is read.
#include "agent/logs/kept_output.h"

#include "agent/status/log_request.h"
#include "tests/support/test.h"

namespace {

std::shared_ptr<KeptOutput> kept_of(int rank) {
  auto kept = std::make_shared<KeptOutput>();
  kept->starts(0, {.round = 1, .rank = rank, .out = {.kept = true}, .err = {.kept = true}});
  return kept;
}

std::string line(int number) { return "line " + std::to_string(number) + "\n"; }

}  // namespace

TEST_CASE("what a worker prints is read piece by piece, and nothing twice", "[kept_output]") {
  const auto kept = kept_of(3);
  const auto print = kept->tap(0);
  print("one\n");
  print("two\n");
  CHECK(kept->local_rank_of(3) == 0);
  CHECK_FALSE(kept->local_rank_of(0));
  KeptOutput::Piece piece = kept->read(0, 0, 5);
  CHECK(piece.bytes == "one\nt");
  CHECK(piece.more);
  piece = kept->read(0, piece.end, 100);
  CHECK(piece.bytes == "wo\n");
  CHECK_FALSE(piece.more);
  CHECK(kept->read(0, piece.end, 100).bytes.empty());
  print("three\n");
  CHECK(kept->read(0, piece.end, 100).bytes == "three\n");
}

TEST_CASE("the last MiB of a worker is kept, and begins with a whole line", "[kept_output]") {
  const auto kept = kept_of(0);
  const auto print = kept->tap(0);
  std::size_t printed = 0;
  int number = 0;
  while (printed < 3 * KeptOutput::kBytesMax) {
    print(line(number));
    printed += line(number++).size();
  }
  const KeptOutput::Piece first = kept->read(0, 0, printed);
  CHECK(first.bytes.size() >= KeptOutput::kBytesMax - 100);
  CHECK(first.bytes.size() <= KeptOutput::kBytesMax + KeptOutput::kBytesMax / 10);
  CHECK(first.bytes.starts_with("line "));
  CHECK(first.bytes.ends_with(line(number - 1)));
  CHECK(first.end == printed);
  CHECK(kept->read(0, printed - line(number - 1).size(), 100).bytes == line(number - 1));
}

TEST_CASE("a rank keeps its lines over rounds, and another one at its place does not get them", "[kept_output]") {
  const auto kept = kept_of(3);
  const auto print = kept->tap(0);
  print("of round 1\n");
  kept->starts(0, {.round = 2, .rank = 3, .out = {.kept = true}});
  print("of round 2\n");
  CHECK(kept->read(0, 0, 100).bytes == "of round 1\nof round 2\n");
  kept->starts(0, {.round = 3, .rank = 1, .out = {.kept = true}});
  CHECK_FALSE(kept->local_rank_of(3));
  print("of rank 1\n");
  CHECK(kept->read(0, 0, 100).bytes == "of rank 1\n");
  kept->starts(1, {.round = 4, .rank = 1});
  CHECK(kept->local_rank_of(1) == 1);  // of the newest round
}

TEST_CASE("questions about a rank's output and their answers come as they were sent", "[kept_output]") {
  const LogPosition position{"agent-1", 2, 70, FilePosition{12, 5}, std::nullopt};
  const auto request = parse_log_request(log_line({7, true, position}));
  REQUIRE(request);
  CHECK(request->rank == 7);
  CHECK(request->waits);
  CHECK(request->from == position);
  for (const std::string wrong : {"log", "log ", "log 7", "log {}", R"(log {"rank":-1})", R"(log {"rank":1e99})"})
    CHECK_FALSE(parse_log_request(wrong));
  const auto answer = parse_log_answer(
      to_text({"", false, "gpu-7", 2, true, position, {{"", "a\n{\n", 0}, {"stderr", std::string("\0b", 2), 12}}}));
  REQUIRE(answer);
  CHECK(answer->host == "gpu-7");
  CHECK(answer->more);
  CHECK(answer->next == position);
  CHECK(answer->parts.at(0).bytes == "a\n{\n");
  CHECK(answer->parts.at(1).stream == "stderr");
  CHECK(answer->parts.at(1).bytes == std::string("\0b", 2));
  CHECK(answer->parts.at(1).left_out == 12);
  for (const std::string wrong : {"", "{}", "no\n", "{\"parts\":[{\"size\":9}]}\nshort", "{\"parts\":[7]}\n"})
    CHECK_FALSE(parse_log_answer(wrong));
}
