#include "agent/hang/signs_of_life.h"

#include "tests/support/test.h"

namespace {

// A worker that has trained for a minute on two processors, and is looked at every ten seconds.
struct Looked {
  Looked() { look(); }
  std::string look() {
    sample.at += 10s;
    sample.ran += 10s;
    life.add(sample);
    return life.in_words();
  }

  LifeSample sample{.at = TimePoint(100s), .functions = {"train.py:step", "train.py:main"}, .cpu_s = 120, .ran = 60s};
  SignsOfLife life;
};

}  // namespace

TEST_CASE("a worker lives whose stack moves, that reads and writes, or that computes as in training", "[hang]") {
  Looked worker;
  CHECK(worker.look().empty());
  SECTION("stack") {
    worker.sample.functions.front() = "train.py:other";
    CHECK(worker.look() == "its stack moves");
    CHECK(worker.look() == "its stack moves");  // just before
    CHECK(worker.look().empty());
  }
  SECTION("bytes") {
    worker.sample.bytes += 30e6;
    CHECK(worker.look() == "it reads and writes 3.0 MB/s");
  }
  SECTION("processors") {
    worker.sample.cpu_s += 18;
    CHECK(worker.look() == "it computes as in training");
  }
  SECTION("children") {
    worker.sample.cpu_s_of_children += 9;
    CHECK(worker.look() == "what it has started computes");
  }
}

TEST_CASE("stacks that are seen again do not end a worker whose stack moves", "[hang]") {
  Looked worker;
  worker.sample.functions.front() = "train.py:other";
  CHECK(worker.look() == "its stack moves");
  for (int i = 0; i < 4; ++i) worker.life.add(worker.sample);
  CHECK(worker.life.in_words() == "its stack moves");
}

TEST_CASE("what a hung worker does, too, is no sign of life", "[hang]") {
  Looked worker;
  worker.sample.bytes += 100e3;  // a logger's line now and then
  CHECK(worker.look().empty());
  worker.sample.cpu_s += 10;  // a loop without end
  CHECK(worker.look().empty());
  worker.sample.loads = true;
  worker.sample.cpu_s_of_children += 10;  // a loader in such a loop
  CHECK(worker.look().empty());
  worker.sample.functions.clear();  // its stack could not be had
  CHECK(worker.look().empty());
  worker.sample = {.at = worker.sample.at};  // it is gone, with what it has started
  CHECK(worker.look().empty());
}

TEST_CASE("what a process and its children have read and written is told", "[hang]") {
  const TempFolder folder;
  std::ofstream(folder / "text") << std::string(1 << 20, 'x');
  LifeSample before, now;
  add_from_proc(getpid(), before);
  const Command child({"tail", "-c", "+0", "-f", folder / "text"});  // reads and writes it, and stays
  CHECK(eventually([&] { return add_from_proc(getpid(), now = {}), now.bytes - before.bytes >= 1 << 20; }, 20s));
}
