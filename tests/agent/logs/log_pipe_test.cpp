#include "agent/logs/log_pipe.h"

#include <poll.h>
#include <stdlib.h>

#include <future>

#include "tests/support/test.h"

namespace {

// Whether somebody may still read what is written there.
bool has_reader(const Fd& pipe) {
  pollfd state{pipe.get(), 0, 0};
  return poll(&state, 1, 0) == 0;
}

// What comes to a terminal that is our stderr meanwhile.
std::string on_a_terminal(const std::function<void(LogPipes&)>& say) {
  const Fd master(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE((master && grantpt(master.get()) == 0 && unlockpt(master.get()) == 0));
  const Fd before(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10)), slave(open(ptsname(master.get()), O_RDWR | O_NOCTTY));
  REQUIRE(dup2(slave.get(), STDERR_FILENO) == STDERR_FILENO);
  {
    LogPipes logs;
    say(logs);
    logs.drain(10s);
  }
  dup2(before.get(), STDERR_FILENO);
  std::string text;
  char piece[4096];
  for (pollfd ready{master.get(), POLLIN, 0}; poll(&ready, 1, 0) == 1 && (ready.revents & POLLIN);) {
    const ssize_t size = read(master.get(), piece, sizeof piece);
    if (size <= 0) break;
    text.append(piece, static_cast<std::size_t>(size));
  }
  return text;
}

}  // namespace

TEST_CASE("the thread of the logs has let go of everything when they are gone", "[log_pipe]") {
  for (int i = 0; i < 50; ++i) {
    Fd pipe;
    {
      LogPipes logs;
      pipe = logs.open({.console_fd = -1});
      REQUIRE(has_reader(pipe));
    }
    REQUIRE_FALSE(has_reader(pipe));
  }
}

TEST_CASE("a tap that takes long delays no output, and nobody who asks for the last lines", "[log_pipe]") {
  const test::TempFolder folder;
  std::promise<void> begun, may_end;
  const auto tap = [&](std::string_view) { begun.set_value(), may_end.get_future().wait(); };
  LogPipes logs;
  const Fd pipe = logs.open({.round = 1, .remember_tail = true, .file = folder / "log", .tap = tap});
  REQUIRE(write(pipe.get(), "line\n", 5) == 5);
  begun.get_future().wait();
  CHECK(test::read_file(folder / "log") == "line\n");
  CHECK(logs.last_lines(1, 0) == std::vector<std::string>{"line"});
  may_end.set_value();
}

TEST_CASE("what has passed last is known of each stream while it is open, and when it came", "[log_pipe]") {
  LogPipes logs;
  const TimePoint before = Clock::now();
  Fd out = logs.open({.round = 1, .rank = 3, .is_stdout = true});
  const Fd err = logs.open({.round = 1, .rank = 3}), other = logs.open({.round = 1, .rank = 4, .is_stdout = true});
  const auto passed = [&](bool is_stdout) {
    std::vector<std::string> all;
    for (const LogPipes::PassedEnd& end : logs.passed_ends(1, 3)) {
      if (end.is_stdout != is_stdout) continue;
      all.push_back(end.bytes);
      CHECK((end.bytes.empty() || end.at >= before));
    }
    return all;
  };
  CHECK(passed(true) == std::vector<std::string>{""});
  REQUIRE(write(out.get(), "epoch 1\n", 8) == 8);
  REQUIRE(write(other.get(), "epoch 2\n", 8) == 8);
  CHECK(eventually([&] { return passed(true) == std::vector<std::string>{"epoch 1\n"}; }, 20s));
  CHECK(passed(false) == std::vector<std::string>{""});
  logs.go_on(1, 3, {.round = 2, .rank = 0});
  CHECK(eventually([&] { return logs.passed_ends(2, 0).size() == 2; }, 20s));
  CHECK(passed(true).empty());
  out.reset();
  CHECK(eventually([&] { return logs.passed_ends(2, 0).size() == 1; }, 20s));
}

TEST_CASE("nothing that a peer, a file or a worker wrote acts on the terminal when the agent speaks of it",
          "[log_pipe]") {
  const std::string acts =
      "host\x1b]0;title\x07 \xc2\x9b"
      "31m \x9b"
      "1m";
  const std::string shown = R"(host\x1b]0;title\x07 \xc2\x9b31m \x9b1m)";
  const std::map<std::string, std::function<void(LogPipes&)>> ways{
      {"print", [&](LogPipes& logs) { logs.print(acts); }},
      {"print_lines", [&](LogPipes& logs) { logs.print_lines(acts + "\n"); }},
      {"warn", [&](LogPipes& logs) { logs.warn(acts); }},
      {"show", [&](LogPipes& logs) { logs.show(acts); }}};
  for (const auto& [way, say] : ways) {
    const std::string text = on_a_terminal(say);
    CAPTURE(way);
    CHECK(text.find(shown) != std::string::npos);
    for (const char* bad : {"\x1b]", "\x07", "\xc2\x9b", " \x9b"}) CHECK(text.find(bad) == std::string::npos);
  }
}
