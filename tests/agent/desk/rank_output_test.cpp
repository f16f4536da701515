// Who asks for a rank's output gets it from memory or from the worker's files, at once or when there is some.
#include "agent/desk/rank_output.h"

#include "tests/support/test.h"

namespace {

struct Rig {
  Rig() = default;
  explicit Rig(KeptOutput::Worker worker) { kept->starts(0, worker); }

  LogAnswer ask(const LogRequest& request) {
    std::optional<LogAnswer> answer;
    output.read(request, [&](const LogAnswer& said) { answer = said; });
    io.restart();
    while (!answer) io.run_one_for(10s);
    return *answer;
  }
  std::string text(const LogRequest& request) {
    std::string out;
    last = ask(request);
    for (const LogPart& part : last.parts) out += part.stream + ":" + part.bytes;
    return out;
  }

  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work = asio::make_work_guard(io);
  std::shared_ptr<KeptOutput> kept = std::make_shared<KeptOutput>();
  std::vector<int> completed;
  RankOutput output{io, "gpu-7", kept, [this](int, int rank) { completed.push_back(rank); }};
  LogAnswer last;
};

const KeptOutput::Worker kKept{.round = 1, .rank = 3, .out = {.kept = true}, .err = {.kept = true}};

}  // namespace

TEST_CASE("what an agent has kept of a rank is told once, and then what is new", "[rank_output]") {
  Rig rig(kKept);
  const auto print = rig.kept->tap(0);
  print("one\n");
  CHECK(rig.text({3}) == ":one\n");
  CHECK(rig.last.host == "gpu-7");
  CHECK(rig.last.round == 1);
  CHECK(rig.text({3, false, rig.last.next}).empty());
  asio::steady_timer later(rig.io, 20ms);
  later.async_wait([&](const asio::error_code&) { print("two\n"); });
  CHECK(rig.text({3, true, rig.last.next}) == ":two\n");
  CHECK(rig.text({3, false, {.agent = "another", .kept = 4}}) == ":one\ntwo\n");
}

TEST_CASE("files that a worker writes itself are read from where they were left, and anew in another round",
          "[rank_output]") {
  const TempFolder folder;
  folder.write("out", "one\n");
  Rig rig({.round = 1, .rank = 3, .out = {.file = folder / "out"}, .err = {.file = folder / "err"}});
  CHECK(rig.text({3}) == "stdout:one\n");
  folder.write("out", "one\ntwo\n");
  folder.write("err", "oh\n");
  CHECK(rig.text({3, false, rig.last.next}) == "stdout:two\nstderr:oh\n");
  CHECK(rig.text({3, false, rig.last.next}).empty());
  folder.write("out", "new\n");  // begun anew
  CHECK(rig.text({3, false, rig.last.next}) == "stdout:new\n");
  folder.write("out2", "of round 2\n");
  rig.kept->starts(0, {.round = 2, .rank = 3, .out = {.file = folder / "out2"}});
  CHECK(rig.text({3, false, rig.last.next}) == "stdout:of round 2\n");
}

TEST_CASE("of a long file the last MiB is read, in answers of which none is large", "[rank_output]") {
  const TempFolder folder;
  std::string content;
  for (int i = 0; content.size() < 2 * KeptOutput::kBytesMax; ++i) content += "line " + std::to_string(i) + " \u00e9\n";
  folder.write("out", content);
  Rig rig({.round = 1, .rank = 0, .out = {.file = folder / "out"}});
  std::string all;
  LogRequest request{0};
  do {
    const LogAnswer answer = rig.ask(request);
    REQUIRE(answer.parts.size() == 1);
    CHECK(answer.parts.front().bytes.size() <= 65'536);
    CHECK(static_cast<unsigned char>(answer.parts.front().bytes.back()) != 0xc3);  // no half of a character
    all += answer.parts.front().bytes;
    request.from = answer.next;
    rig.last = answer;
  } while (rig.last.more);
  CHECK(all.starts_with("line "));
  CHECK(all.size() > KeptOutput::kBytesMax - 100);
  CHECK((content.ends_with(all)));
}

TEST_CASE("who waits for a rank gets the last lines of a worker before anybody learns of its end", "[rank_output]") {
  const TempFolder folder;
  const bool in_file = GENERATE(false, true);
  folder.write("out", "one\n");
  Rig rig(in_file ? KeptOutput::Worker{.round = 1, .rank = 3, .out = {.file = folder / "out"}} : kKept);
  if (!in_file) rig.kept->tap(0)("one\n");
  const LogAnswer first = rig.ask({3});
  std::optional<LogAnswer> last;
  rig.output.read({3, true, first.next}, [&](const LogAnswer& said) { last = said; });
  while (rig.io.run_one_for(50ms) > 0 && in_file) {  // its file has been read once
  }
  REQUIRE_FALSE(last);
  folder.write("out", "one\nlast\n");
  if (!in_file) rig.kept->tap(0)("last\n");
  rig.output.worker_ended(1, 2);
  CHECK(rig.completed.empty());
  CHECK_FALSE(last);
  rig.output.worker_ended(1, 3);
  CHECK(rig.completed == std::vector{3});
  REQUIRE(last);
  CHECK(last->parts.at(0).bytes == "last\n");
}

TEST_CASE("who reads by a timer that is due when the worker's end replies gets one reply", "[rank_output]") {
  Rig rig(kKept);
  rig.kept->tap(0)("one\n");
  const LogAnswer first = rig.ask({3});
  int replies = 0;
  asio::steady_timer end_comes(rig.io, 0ms);  // due before the reader's, and run before it
  end_comes.async_wait([&](const asio::error_code&) { rig.output.worker_ended(1, 3); });
  rig.output.read({3, true, first.next}, [&](const LogAnswer&) { ++replies; });
  std::this_thread::sleep_until(Clock::now() + 2 * RankOutput::kTryAgain);  // both are due when the loop looks
  rig.io.restart();
  while (replies == 0) rig.io.run_one_for(1s);
  rig.io.poll();
  CHECK(replies == 1);
}

TEST_CASE("bytes that are no UTF-8 are replaced, and what follows is neither lost nor moved", "[rank_output]") {
  Rig rig(kKept);
  rig.kept->tap(0)("caf\351\n");
  CHECK(rig.text({3}) == ":caf\ufffd\n");
  const auto sent = parse_log_answer(to_text(rig.last));
  REQUIRE(sent);
  CHECK(sent->parts.at(0).bytes == "caf\ufffd\n");
  rig.kept->tap(0)("next\n");
  CHECK(rig.text({3, false, rig.last.next}) == ":next\n");
}

TEST_CASE("of a rank that has moved the newest round alone is new", "[rank_output]") {
  Rig rig(kKept);
  rig.kept->tap(0)("of round 1\n");
  CHECK(rig.text({3}) == ":of round 1\n");
  const LogPosition before = rig.last.next;
  rig.kept->starts(1, {.round = 1, .rank = 4, .out = {.kept = true}});
  rig.kept->tap(1)("of rank 4\n");
  rig.kept->starts(1, {.round = 2, .rank = 3, .out = {.kept = true}});
  rig.kept->starts(0, {.round = 2, .rank = 4, .out = {.kept = true}});
  rig.kept->tap(1)("of round 2\n");
  CHECK(rig.text({3, false, before}) == "stdout:of round 2\n");
  CHECK(rig.last.parts.at(0).left_out == 0);
  CHECK(rig.text({3, false, {.agent = "another"}}) == "stdout:of round 2\n");
}

TEST_CASE("a file that was rotated is read to its end before the new one, and one that stays is not read again",
          "[rank_output]") {
  const TempFolder folder;
  folder.write("out", "one\n");
  Rig rig({.round = 1, .rank = 3, .out = {.file = folder / "out"}});
  CHECK(rig.text({3}) == "stdout:one\n");
  folder.write("out", "one\ntwo\n");
  fs::rename(folder / "out", folder / "out.1");
  folder.write("out", "three\n");
  CHECK(rig.text({3, false, rig.last.next}) == "stdout:two\n");
  CHECK(rig.last.more);
  CHECK(rig.text({3, false, rig.last.next}) == "stdout:three\n");
  rig.kept->starts(0, {.round = 2, .rank = 3, .out = {.file = folder / "out"}});  // the worker has stayed
  CHECK(rig.text({3, false, rig.last.next}).empty());
}

TEST_CASE("why there is nothing to read is said in one sentence", "[rank_output]") {
  Rig rig({.round = 1, .rank = 3});
  CHECK(rig.ask({3}).problem ==
        "the output of rank 3 goes where that of ddprun on gpu-7 goes, and is not kept; --log-dir DIR keeps it");
  RankOutput without(rig.io, "gpu-7", nullptr, {});
  std::string problem;
  without.read({0}, [&](const LogAnswer& said) { problem = said.problem; });
  CHECK(has(problem, "the output of rank 0 goes where "));
  const LogAnswer started = rig.ask({4});
  CHECK(started.problem == "rank 4 is just started");
  CHECK(started.passes);
  const TempFolder folder;
  CHECK(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  Rig of_pipe({.round = 1, .rank = 0, .out = {.file = folder / "pipe"}});
  CHECK(of_pipe.text({0}).empty());  // it is never waited for
}
