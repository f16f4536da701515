// A file system that does not answer is a promise that is not kept yet.
#include "agent/process/files/file_thread.h"

#include <future>

#include "tests/support/test.h"

namespace {

struct Stall {
  std::function<std::string()> write() const {
    return [begun = begun, over = release->get_future().share()] {
      begun->set_value();
      over.wait();
      return std::string();
    };
  }
  const std::shared_ptr<std::promise<void>> begun = std::make_shared<std::promise<void>>(),
                                            release = std::make_shared<std::promise<void>>();
};

}  // namespace

TEST_CASE("a stalled file system holds up nobody, and is told once, with what was lost", "[files]") {
  std::vector<std::string> said;
  std::atomic<int> written = 0;
  const Stall stall;
  FileThread files([&](const std::string& line) { said.push_back(line); }, {.bytes_max = 100, .told_after = 0s});
  REQUIRE(files.post("the event log /x", 10, stall.write()));
  stall.begun->get_future().wait();
  const auto count = [&] { return ++written, std::string(); };
  CHECK(files.post("/y", 90, count));
  for (int i = 0; i < 2; ++i) CHECK_FALSE(files.post("/y", 1, count));
  CHECK_FALSE(files.drain(1ms));
  CHECK(said.empty());
  stall.release->set_value();
  REQUIRE(files.drain(20s));
  CHECK(written == 1);
  CHECK(said == std::vector<std::string>{"/y: the file system did not answer for 0 s; 2 lines are lost",
                                         "the event log /x: the file system did not answer for 0 s",
                                         "/y: the file system did not answer for 0 s"});
}

TEST_CASE("a file system that does not answer for good is told in time, and at the end, and ends nothing", "[files]") {
  std::vector<std::string> said;
  const Stall stall;
  {
    FileThread files([&](const std::string& line) { said.push_back(line); },
                     {.told_late = 0s, .last_write_limit = 1ms});
    REQUIRE(files.post("/x", 10, stall.write()));
    stall.begun->get_future().wait();
    for (int i = 0; i < 2; ++i) CHECK(files.post("/x", 10, [] { return std::string("is not said"); }));
  }
  CHECK(said == std::vector<std::string>{"/x: the file system has not answered for 0 s; ddprun goes on without it",
                                         "/x: the file system has not answered for 0 s; 3 lines are lost"});
  stall.release->set_value();
}

TEST_CASE("a question to a file system is answered at once, or not at all, and then holds up nobody again", "[files]") {
  std::vector<std::string> said;
  const Stall stall;
  {
    FileThread files([&](const std::string& line) { said.push_back(line); }, {.last_write_limit = 1ms});
    CHECK(files.ask("the certificate /x", [] { return 7; }) == 7);
    CHECK(files.ask("the certificate /x", [write = stall.write()] { return write(), 7; }) == std::nullopt);
    const TimePoint before = Clock::now();
    for (int i = 0; i < 100; ++i) CHECK(files.ask("the certificate /x", [] { return 7; }) == std::nullopt);
    CHECK(Clock::now() - before < 5s);  // a second each, if they waited
    stall.release->set_value();
    REQUIRE(files.drain(20s));
    CHECK(files.ask("the certificate /x", [] { return 8; }) == 8);
  }
  CHECK(said.empty());
}

TEST_CASE("a file that could not be written until the end is named, once, and what was only read is not", "[files]") {
  std::vector<std::string> said;
  const Stall stall;
  {
    FileThread files([&](const std::string& line) { said.push_back(line); }, {.last_write_limit = 1ms});
    REQUIRE(files.call("the certificate /x", stall.write()));
    stall.begun->get_future().wait();
    CHECK(files.post("/end", 0, [] { return std::string("is not said"); }));
    files.give_up();
    files.give_up();
  }
  CHECK(FileThread::any_left());
  CHECK(said == std::vector<std::string>{"/end: the file system has not answered for 0 s; it is not written",
                                         "the certificate /x: the file system has not answered for 0 s"});
  stall.release->set_value();
}

TEST_CASE("a stall that somebody has told is not told again", "[files]") {
  std::vector<std::string> said;
  const Stall stall;
  FileThread files([&](const std::string& line) { said.push_back(line); }, {.told_after = 0s});
  files.tell_late();  // nothing is late
  REQUIRE(files.call("the log folder /x", stall.write()));
  stall.begun->get_future().wait();
  files.tell_late();
  files.tell_late();
  stall.release->set_value();
  REQUIRE(files.drain(20s));
  CHECK(said == std::vector<std::string>{
                    "the log folder /x: the file system has not answered for 0 s; ddprun goes on without it"});
}
