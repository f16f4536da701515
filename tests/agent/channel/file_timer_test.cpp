// The timer pipe with real processes, real signals and the wall clock.
#include "agent/channel/file_timer.h"

#include "rendezvous/base/error.h"
#include "rendezvous/base/fd.h"
#include "tests/support/test.h"

namespace {

const std::vector<std::string> kSleeper{"sleep", "600"};

// The number of a process that the shell has started, and printed.
pid_t printed_pid(Command& shell) { return std::stoi(shell.wait_for_output("(\\d+)\n", 10s)[1]); }

struct Fixture {
  TempFolder folder;
  asio::io_context io;
  std::vector<pid_t> workers;
  std::vector<TimerExpiry> expiries;
  std::vector<std::string> printed;

  FileTimer::Hooks hooks() {
    return {[this] { return workers; }, [this](const TimerExpiry& e) { expiries.push_back(e); },
            [this](const std::string& line) { printed.push_back(line); }};
  }
  bool until(const std::function<bool()>& yes) {
    return test::eventually([&] { return io.poll(), yes(); }, 10s);
  }
};

// With the pipe of these workers.
struct Timers : Fixture {
  explicit Timers(std::vector<pid_t> of) { workers = std::move(of); }
  void send(const std::string& line) {
    const Fd pipe(open(timer.path().c_str(), O_WRONLY | O_NONBLOCK));
    REQUIRE(pipe);
    REQUIRE(write(pipe.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }
  FileTimer timer{io, folder / "pipe", hooks()};
};

std::string request(pid_t pid, double seconds_from_now, int signal) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": "step", "expiration_time": )" +
         std::to_string(now + seconds_from_now) + R"(, "signal": )" + std::to_string(signal) + "}\n";
}

std::string refusal(Fixture& fixture, const std::string& path) {
  return error_text<UsageError>([&] { FileTimer(fixture.io, path, fixture.hooks()); });
}

}  // namespace

TEST_CASE("a worker whose timer runs out gets the signal it asked for", "[file_timer]") {
  Command worker(kSleeper);
  Timers timers({worker.pid()});
  timers.send(request(worker.pid(), 0.05, SIGUSR1));
  REQUIRE(timers.until([&] { return worker.ended(); }));
  CHECK(worker.wait_exit(1s) == test::killed_by(SIGUSR1));
  REQUIRE(timers.expiries.size() == 1);
  CHECK(timers.expiries.front().worker == worker.pid());
  CHECK(timers.expiries.front().timer.scope == "step");
}

TEST_CASE("a released timer signals nobody", "[file_timer]") {
  Command worker(kSleeper), other(kSleeper);
  Timers timers({worker.pid(), other.pid()});
  timers.send(request(worker.pid(), 0.1, SIGKILL) + R"({"version": 1, "pid": )" + std::to_string(worker.pid()) +
              R"(, "scope_id": "step", "expiration_time": -1, "signal": 0})"
              "\n" +
              request(other.pid(), 0.2, SIGKILL));
  REQUIRE(timers.until([&] { return other.ended(); }));
  CHECK_FALSE(worker.ended());
}

TEST_CASE("a timer of a worker's child signals the child and is the worker's failure", "[file_timer]") {
  Command worker({"sh", "-c", "sleep 600 & echo $!; exec sleep 600"});
  const pid_t child = printed_pid(worker);
  Timers timers({worker.pid()});
  timers.send(request(child, 0.0, SIGKILL));
  REQUIRE(timers.until([&] { return !timers.expiries.empty(); }));
  CHECK(timers.expiries.front().worker == worker.pid());
  CHECK(timers.expiries.front().timer.pid == child);
  CHECK_FALSE(worker.ended());
}

TEST_CASE("a descendant whose parent has gone is known by the worker's session", "[file_timer]") {
  Command worker({"sh", "-c", "orphan=$(sleep 600 >&- & echo $!); echo $orphan; exec sleep 600"});
  Timers timers({worker.pid()});
  timers.send(request(printed_pid(worker), 0.0, SIGKILL));
  CHECK(timers.until([&] { return !timers.expiries.empty() || !timers.printed.empty(); }));
  CHECK((timers.expiries.size() == 1 && timers.expiries.front().worker == worker.pid()));
}

TEST_CASE("no process but a worker or its descendant is ever signalled", "[file_timer]") {
  Command worker(kSleeper), stranger(kSleeper);
  Timers timers({worker.pid()});
  timers.send(request(stranger.pid(), 0.0, SIGKILL) + request(getpid(), 0.0, SIGKILL) + request(1, 0.0, SIGKILL) +
              request(worker.pid(), 0.05, SIGKILL));
  REQUIRE(timers.until([&] { return worker.ended(); }));
  CHECK_FALSE(stranger.ended());
  CHECK(timers.expiries.size() == 1);
  REQUIRE(timers.printed.size() == 1);
  CHECK(timers.printed.front().find("is not a worker of this job") != std::string::npos);
}

TEST_CASE("bad lines are named once and passed over, however they are cut", "[file_timer]") {
  Command worker(kSleeper);
  Timers timers({worker.pid()});
  const std::string good = request(worker.pid(), 0.05, SIGKILL);
  timers.send("rubbish\n\n{\"pid\": 1}\n" + std::string(10'000, 'x'));
  REQUIRE(timers.until([&] { return !timers.printed.empty(); }));
  timers.send("\n" + good.substr(0, 10));
  timers.send(good.substr(10));
  REQUIRE(timers.until([&] { return worker.ended(); }));
  CHECK(timers.printed.size() == 1);
  CHECK(timers.printed.front().starts_with("a timer request was ignored (not a line of JSON: \"rubbish\")"));
}

TEST_CASE("the timer pipe goes with its round, and a fresh one takes its name", "[file_timer]") {
  Fixture fixture;
  const std::string path = fixture.folder / "pipe";
  {
    FileTimer timer(fixture.io, path, fixture.hooks());
    CHECK(fs::is_fifo(path));
  }
  CHECK_FALSE(fs::exists(path));
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);  // left by a run that was killed
  CHECK(refusal(fixture, path).empty());
  FileTimer unnamed(fixture.io, "", fixture.hooks());
  CHECK(fs::is_fifo(unnamed.path()));
}

TEST_CASE("no file is removed that is not a dead timer pipe of ours", "[file_timer]") {
  Fixture fixture;
  const std::string path = fixture.folder / "data";
  fixture.folder.write("data", "precious");
  CHECK(refusal(fixture, path) ==
        "cannot make the timer pipe " + path +
            ": the file there is not a pipe, and ddprun does not remove it. Set TORCHELASTIC_TIMER_FILE to another "
            "path, or leave it unset.");
  CHECK(test::read_file(path) == "precious");
  fs::create_symlink(path, fixture.folder / "link");
  CHECK_FALSE(refusal(fixture, fixture.folder / "link").empty());
  CHECK(fs::is_symlink(fixture.folder / "link"));
  CHECK(refusal(fixture, "/nonsuch/pipe").find("No such file or directory") != std::string::npos);
}

TEST_CASE("a timer pipe that another job reads is left to it", "[file_timer]") {
  Fixture fixture;
  const std::string path = fixture.folder / "pipe";
  FileTimer first(fixture.io, path, fixture.hooks());
  CHECK(refusal(fixture, path).find("another job reads timers from this pipe") != std::string::npos);
  CHECK(fs::is_fifo(path));
}

TEST_CASE("a file that took the pipe's place meanwhile stays", "[file_timer]") {
  Fixture fixture;
  const std::string path = fixture.folder / "pipe";
  {
    FileTimer timer(fixture.io, path, fixture.hooks());
    fs::remove(path);
    fixture.folder.write("pipe", "another's");
  }
  CHECK(test::read_file(path) == "another's");
}
