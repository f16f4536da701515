#include "agent/diagnosis/kept_tracebacks.h"

#include "agent/diagnosis/failure_report.h"
#include "agent/diagnosis/traceback_hold.h"
#include "tests/support/test.h"

namespace {

using Lines = std::vector<std::string>;

// What the loop shows without waiting for anything.
struct Rig {
  asio::io_context io;
  Lines shown;
  KeptTracebacks kept{io, [this](const std::string& line) { shown.push_back(line); }};

  void keep(int rank, const std::string& text, TimePoint now) {
    kept.keep(
        {1, rank}, text, [this](const std::string& lines) { shown.push_back(lines); }, now);
  }
  void poll() {
    io.restart();
    io.poll();
  }
};

const std::string kTraceback =
    "Traceback (most recent call last):\n  File \"t.py\", line 1, in f\nNameError: name 'x'\n";
// Of faulthandler.
const std::string kFatal =
    "Fatal Python error: Segmentation fault\n\nThread 0x00007f01 (most recent call first):\n  File \"t.py\", line 9 in "
    "load\n\nCurrent thread 0x00007f02 (most recent call first):\n  File \"t.py\", line 1 in f\n  File \"t.py\", line "
    "3 in "
    "<module>\n\nExtension modules: numpy (total: 1)\n";
const std::string kSyntax = "  File \"t.py\", line 3\n    f(\n     ^\nSyntaxError: '(' was never closed\n";

// What comes out of it in pieces of so many bytes.
std::string shown(TracebackHold& hold, const std::string& text, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) out += hold.take(text.substr(at, piece));
  return out;
}

}  // namespace

TEST_CASE("tracebacks that no report has quoted are shown 15 s after the first of them", "[kept_tracebacks]") {
  const TimePoint now = Clock::now();
  Rig rig;
  rig.keep(0, "first", now - 15s);
  rig.keep(1, "second", now);
  CHECK(rig.kept.lines_of({1, 0}) == Lines{"first"});
  rig.poll();
  CHECK(rig.shown == Lines{"first", "second"});
  CHECK(rig.kept.lines_of({1, 0}).empty());
  rig.keep(0, "of the next round", now - 15s);
  rig.poll();
  CHECK(rig.shown == Lines{"first", "second", "of the next round"});
}

TEST_CASE("tracebacks are off the console until their time has come", "[kept_tracebacks]") {
  Rig rig;
  rig.keep(0, "first", Clock::now());
  rig.poll();
  CHECK(rig.shown.empty());
  CHECK_FALSE(rig.io.stopped());  // the timer runs
}

TEST_CASE("a report takes away the tracebacks that it quotes, and shows the others at once", "[kept_tracebacks]") {
  Rig rig;
  rig.keep(0, "NameError: x\n", Clock::now());
  rig.keep(1, "KeyError: y\n", Clock::now());
  rig.kept.show_unless_quoted("rank 0 exited with code 1\n    | NameError: x\n");
  CHECK(rig.shown == Lines{"KeyError: y\n"});
  CHECK(rig.kept.lines_of({1, 1}).empty());
  rig.poll();
  CHECK(rig.io.stopped());  // nothing is left to be shown later
}

TEST_CASE("a traceback that several ranks wrote is shown once", "[kept_tracebacks]") {
  Rig rig;
  for (const int rank : {0, 1, 2})
    rig.keep(rank, "[rank" + std::to_string(rank) + "]: KeyboardInterrupt\n", Clock::now());
  rig.keep(3, "KeyError: y\n", Clock::now());
  rig.kept.show_unless_quoted("");
  CHECK(rig.shown == Lines{"[rank0]: KeyboardInterrupt\n", "ddprun: ranks 1 and 2 wrote the same.", "KeyError: y\n"});
  for (const int round : {1, 2})
    rig.kept.keep(
        {round, 1}, "KeyError: y\n", [&](const std::string& lines) { rig.shown.push_back(lines); }, Clock::now());
  rig.shown.clear();
  rig.kept.show_unless_quoted("");
  CHECK(rig.shown == Lines{"KeyError: y\n", "KeyError: y\n"});  // of two rounds
}

TEST_CASE("a report gets a traceback by its lines, but none that is too long for it", "[kept_tracebacks]") {
  Rig rig;
  rig.keep(0, "Traceback\n\n  f()\nKeyError: y\n", Clock::now());
  CHECK(rig.kept.lines_of({1, 0}) == Lines{"Traceback", "  f()", "KeyError: y"});
  CHECK(rig.kept.lines_of({2, 0}).empty());
  std::string text;
  for (int line = 0; line < 61; ++line) text += "line\n";
  rig.keep(0, text, Clock::now());
  CHECK(rig.kept.lines_of({1, 0}).empty());
}

TEST_CASE("what faulthandler writes is in the report from its first line on, of many threads the current one's",
          "[kept_tracebacks]") {
  Rig rig;
  rig.keep(0, kFatal, Clock::now());
  const Lines whole = rig.kept.lines_of({1, 0});
  REQUIRE(whole.size() == 7);
  CHECK(whole.front() == "Fatal Python error: Segmentation fault");
  CHECK(whole.back() == "Extension modules: numpy (total: 1)");
  std::string many = kFatal;
  for (int thread = 0; thread < 60; ++thread)
    many.insert(many.find("Thread"), "Thread 0x1 (most recent call first):\n");
  rig.keep(0, many, Clock::now());
  CHECK(rig.kept.lines_of({1, 0}) ==
        Lines{"Fatal Python error: Segmentation fault",
              "Current thread 0x00007f02 (most recent call first):", "  File \"t.py\", line 1 in f",
              "  File \"t.py\", line 3 in <module>", "... (63 more lines are shown above)"});
  rig.kept.show_unless_quoted("rank 0\n    | Fatal Python error: Segmentation fault\n");
  CHECK(rig.shown == Lines{many});  // in one piece
}

TEST_CASE("a traceback is held from its first line on, whatever pieces it comes in", "[traceback_hold]") {
  for (const std::string mark : {"", "[rank0]: ", "[rank117]: "})
    for (const std::string& traceback : {mark + kTraceback, mark + kSyntax, mark + kFatal})
      for (std::size_t piece = 1; piece < 40; ++piece) {
        TracebackHold hold;
        CAPTURE(traceback, piece);
        CHECK(shown(hold, "a step\n\n  two\n" + traceback, piece) == "a step\n\n  two\n");
        CHECK(hold.holds_traceback());
        CHECK(hold.take("more of it\n").empty());
        CHECK(hold.release() == traceback + "more of it\n");
        CHECK_FALSE(hold.holds());
        CHECK(hold.take("on it goes\n") == "on it goes\n");
        CHECK(hold.take(kTraceback).empty());  // the next one, too
      }
}

TEST_CASE("what is none passes as it is, and what may become one waits for its next bytes", "[traceback_hold]") {
  const std::string text =
      "Traceback of none\n in a line Traceback (most recent call last):\n  Filed\n[rank]: x\n[rank3] y\n[r\n 100%|##| "
      "3/3\r";
  for (std::size_t piece = 1; piece < 40; ++piece) {
    TracebackHold hold;
    CHECK(shown(hold, text, piece) + hold.release() == text);
    CHECK_FALSE(hold.holds_traceback());
  }
  TracebackHold hold;
  CHECK(hold.take("done. Trace") == "done. Trace");
  CHECK(hold.take("back (most recent call last):\nTrace") == "back (most recent call last):\n");
  CHECK(hold.holds());
  CHECK_FALSE(hold.holds_traceback());
  CHECK(hold.take("d\n") == "Traced\n");
  CHECK(hold.take("Trac").empty());
  CHECK(hold.release() == "Trac");  // waited for long enough: no line begins here any more
  CHECK(hold.take("eback (most recent call last):\n") == "eback (most recent call last):\n");
}

TEST_CASE("whoever writes more than a traceback has is not held", "[traceback_hold]") {
  TracebackHold hold;
  std::string out = hold.take(kTraceback);
  const std::string line(999, 'x');
  for (int i = 0; i < 100; ++i) out += hold.take(line + "\n");
  CHECK_FALSE(hold.holds());
  CHECK(out.size() == kTraceback.size() + 100'000);
}

TEST_CASE("a report quotes a text whose lines it has, whichever rank's they are", "[traceback_hold]") {
  const std::string report =
      "ddprun: the job failed: rank 5.\n  the last lines of its stderr:\n    | [rank5]: a\n    | b\n";
  CHECK(quotes(report, "[rank3]: a\n[rank3]: b\n"));
  CHECK(quotes(report, "b\n\n"));
  CHECK_FALSE(quotes(report, "a\nc\n"));
  CHECK_FALSE(quotes(report, "ddprun: the job failed: rank 5.\n"));
  CHECK_FALSE(quotes("", "a\n"));
  CHECK_FALSE(
      quotes("ddprun: the job failed: rank 0 exited with code 1: AssertionError (t.py:9).\n    | assert b\n    | "
             "AssertionError\n",
             "assert a\nAssertionError\n"));
  const std::string fatal =
      "the job failed\n    | Fatal Python error: Aborted\n    | Current thread 0x00007f01 (most recent "
      "call first):\n    |   File \"t.py\", line 1 in f\n";
  CHECK(quotes(fatal,
               "Fatal Python error: Aborted\n\nCurrent thread 0x00007f02 (most recent call first):\n  File "
               "\"t.py\", line 1 in f\n"));
  CHECK_FALSE(quotes(fatal,
                     "Fatal Python error: Aborted\n\nCurrent thread 0x00007f02 (most recent call first):\n  File "
                     "\"t.py\", line 2 in f\n"));
}
