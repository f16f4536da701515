#include "agent/desk/last_lines.h"

#include <nlohmann/json.hpp>

#include "tests/support/test.h"

namespace {

constexpr FileId kShared{1, 7};

OutputEnd in_file(const std::string& bytes, ddprun::Duration age, FileId file = kShared) {
  return {.age = age, .bytes = bytes, .file = file};
}
OutputEnd passed(const std::string& bytes, ddprun::Duration age) { return {.age = age, .bytes = bytes}; }
OutputEnd on_stderr(const std::string& bytes, ddprun::Duration age) {
  return {.is_stdout = false, .age = age, .bytes = bytes};
}

using Lines = std::vector<OutputLine>;
Lines lines_of(const std::vector<WorkerOutput>& workers) { return last_lines(workers, 60s); }

}  // namespace

TEST_CASE("the last line of output is the last complete one that has text", "[last_line]") {
  CHECK(last_line("epoch 1\nepoch 2\n") == "epoch 2");
  CHECK(last_line("epoch 1\n  epoch 2 \n\n \t\r\n") == "epoch 2");
  CHECK(last_line("epoch 1\r\nepoch 2\r\n") == "epoch 2");
  CHECK(last_line("epoch 1\nepo") == "epoch 1");  // the rest may come
  CHECK(last_line("loading ...") == "loading ...");
  CHECK(last_line("\n\nloading ...") == "loading ...");
  CHECK(last_line("").empty());
  CHECK(last_line("\n \r\n").empty());
}

TEST_CASE("of a progress bar its last redraw is shown", "[last_line]") {
  CHECK(last_line("start\n\r 10%|# |\r 20%|##|") == "20%|##|");
  CHECK(last_line("start\n10%\r20%\r") == "20%");
  CHECK(last_line("start\n\r100%\r      \r") == "100%");
  CHECK(last_line("start\n\r100%\ndone\n") == "done");
  CHECK(last_line("start\n\r99%\r100%\n") == "100%");
}

TEST_CASE("what is no text does no harm, and a long line is cut between characters", "[last_line]") {
  CHECK(last_line("\x1b[32mloss\x1b[0m 0.5\a\n") == "loss 0.5");
  CHECK(last_line("\xa4\xbc cut before\n") == "cut before");  // the rest of a character
  CHECK(last_line("loss \xff 1\n") == "loss \xef\xbf\xbd 1");
  CHECK(last_line(std::string(3, '\0') + "after a hole\n") == "after a hole");
  std::string umlauts = "x";
  for (int i = 0; i < 300; ++i) umlauts += "ü";
  const std::string cut = last_line(umlauts);
  CHECK(cut.size() <= kOutputLineMax);
  CHECK_THAT(cut, EndsWith("ü ..."));
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    std::string bytes(random() % 5000, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random() % 256);
    const std::string line = last_line(bytes);
    CHECK(line.size() <= kOutputLineMax);
    CHECK_NOTHROW(nlohmann::json(line).dump());  // it is UTF-8
    CHECK(std::none_of(line.begin(), line.end(), [](char one) { return static_cast<unsigned char>(one) < 0x20; }));
  }
}

TEST_CASE("ranks that write one file have one last line", "[last_line]") {
  CHECK(lines_of({{0, {in_file("epoch 1\n", 3s)}}, {1, {in_file("epoch 1\n", 3s)}}}) ==
        Lines{{kSeveralRanks, 3s, "epoch 1"}});
  CHECK(lines_of({{4, {in_file("epoch 1\n", 3s)}}}) == Lines{{4, 3s, "epoch 1"}});
  CHECK(lines_of({{0, {in_file("a\n", 3s, {1, 1})}}, {1, {in_file("b\n", 2s, {1, 2})}}}) ==
        Lines{{1, 2s, "b"}, {0, 3s, "a"}});
}

TEST_CASE("of both streams the newer line is shown, if it is known what is on stdout", "[last_line]") {
  CHECK(lines_of({{0, {on_stderr("a warning\n", 50s)}}}).empty());
  CHECK(lines_of({{0, {passed("", 60s), on_stderr("a warning\n", 50s)}}}) == Lines{{0, 50s, "a warning"}});
  CHECK(lines_of({{0, {passed("epoch 1\n", 3s), on_stderr("a warning\n", 50s)}}}) == Lines{{0, 3s, "epoch 1"}});
  CHECK(lines_of({{0, {in_file("epoch 1\n", 3s), on_stderr("45%\r", 1s)}}, {1, {in_file("epoch 1\n", 3s)}}}) ==
        Lines{{0, 1s, "45%"}, {kSeveralRanks, 3s, "epoch 1"}});
}

TEST_CASE("a file's lines of ddprun are none of a worker's", "[last_line]") {
  CHECK(last_line_of_workers("epoch 1\nddprun: page: http://localhost:1/\n") == "epoch 1");
  CHECK(last_line_of_workers("ddprun: page: http://localhost:1/\n").empty());
  CHECK(last_line_of_workers("epoch 1\n  45%\r") == "45%");
  CHECK(lines_of({{0, {in_file("epoch 1\nddprun: rank 1 was killed\n", 3s)}}}) == Lines{{0, 3s, "epoch 1"}});
}

TEST_CASE("the lines of an earlier run in the same file are not shown", "[last_line]") {
  CHECK(lines_of({{0, {in_file("of yesterday\n", 24h)}}}).empty());
  CHECK(lines_of({{0, {in_file("of yesterday\n", 24h), on_stderr("a warning\n", 5s)}}}) == Lines{{0, 5s, "a warning"}});
}

TEST_CASE("a node of many ranks tells only its newest line", "[last_line]") {
  std::vector<WorkerOutput> workers;
  for (int rank = 0; rank < static_cast<int>(kOutputLinesMax); ++rank)
    workers.push_back({rank, {passed("line\n", std::chrono::seconds(100 - rank))}});
  CHECK(lines_of(workers).size() == kOutputLinesMax);
  workers.push_back({99, {passed("newest\n", 1s)}});
  CHECK(lines_of(workers) == Lines{{99, 1s, "newest"}});
}
