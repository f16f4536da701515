#include "agent/diagnosis/kept_tracebacks.h"

#include "tests/support/catch.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;

namespace {

using Lines = std::vector<std::string>;

// What the loop shows without waiting for anything.
struct Rig {
  asio::io_context io;
  KeptTracebacks kept{io};
  Lines shown;

  void keep(int rank, const std::string& text, TimePoint now) {
    kept.keep(
        {1, rank}, text, [this](const std::string& lines) { shown.push_back(lines); }, now);
  }
  void poll() {
    io.restart();
    io.poll();
  }
};

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
