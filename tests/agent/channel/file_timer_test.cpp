// The timer pipe with real processes, real signals and the wall clock.
#include "agent/channel/file_timer.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "rendezvous/base/error.h"
#include "tests/agent/process/sleeper.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using namespace ddprun::agent;
using namespace std::chrono_literals;
using test::Sleeper;
namespace fs = std::filesystem;

namespace {

struct Fixture {
  test::TempFolder folder;
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

void send(const std::string& path, const std::string& line) {
  const int pipe = open(path.c_str(), O_WRONLY | O_NONBLOCK);
  REQUIRE(pipe >= 0);
  REQUIRE(write(pipe, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  close(pipe);
}

std::string request(pid_t pid, double seconds_from_now, int signal) {
  const double now = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return R"({"version": 1, "pid": )" + std::to_string(pid) + R"(, "scope_id": "step", "expiration_time": )" +
         std::to_string(now + seconds_from_now) + R"(, "signal": )" + std::to_string(signal) + "}\n";
}

// With a timer pipe and one worker, which may have a child.
struct Timed : Fixture {
  explicit Timed(bool with_child = false) : worker(with_child) { workers = {worker.pid}; }
  Sleeper worker;
  FileTimer timer{io, folder / "pipe", hooks()};
};

std::string refusal(Fixture& fixture, const std::string& path) {
  try {
    FileTimer timer(fixture.io, path, fixture.hooks());
  } catch (const UsageError& error) {
    return error.what();
  }
  return "made";
}

}  // namespace

TEST_CASE("a released timer signals nobody", "[file_timer]") {
  Timed job;
  Sleeper other;
  job.workers.push_back(other.pid);
  const pid_t worker = job.worker.pid;
  send(job.timer.path(), request(worker, 0.1, SIGKILL) + R"({"version": 1, "pid": )" + std::to_string(worker) +
                             R"(, "scope_id": "step", "expiration_time": -1, "signal": 0})"
                             "\n" +
                             request(other.pid, 0.2, SIGKILL));
  REQUIRE(job.until([&] { return other.has_ended(); }));
  CHECK_FALSE(job.worker.has_ended());
}

TEST_CASE("a timer of a worker's child signals the child and is the worker's failure", "[file_timer]") {
  Timed job(true);
  send(job.timer.path(), request(job.worker.child, 0.0, SIGKILL));
  REQUIRE(job.until([&] { return !job.expiries.empty(); }));
  CHECK(job.expiries.front().worker == job.worker.pid);
  CHECK(job.expiries.front().timer.pid == job.worker.child);
  CHECK_FALSE(job.worker.has_ended());
}

TEST_CASE("a descendant whose parent has gone is known by the worker's session", "[file_timer]") {
  Fixture fixture;
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t worker = fork();
  if (worker == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setsid();
    int gone[2];
    if (pipe(gone) != 0) _exit(1);
    const pid_t between = fork();
    if (between == 0 && fork() == 0) {
      const pid_t orphan = getpid();
      close(gone[1]);
      if (char end; read(gone[0], &end, 1) != 0) _exit(1);  // until its parent has gone
      if (write(ends[1], &orphan, sizeof orphan) < 0) _exit(1);
      for (;;) pause();
    }
    if (between == 0) _exit(0);
    waitpid(between, nullptr, 0);
    close(gone[1]);
    for (;;) pause();
  }
  pid_t orphan = 0;
  REQUIRE(read(ends[0], &orphan, sizeof orphan) == sizeof orphan);
  fixture.workers = {worker};
  FileTimer timer(fixture.io, fixture.folder / "pipe", fixture.hooks());
  send(timer.path(), request(orphan, 0.0, SIGKILL));
  CHECK(fixture.until([&] { return !fixture.expiries.empty() || !fixture.printed.empty(); }));
  CHECK((fixture.expiries.size() == 1 && fixture.expiries.front().worker == worker));
  for (const pid_t pid : {orphan, worker}) kill(pid, SIGKILL);
  waitpid(worker, nullptr, 0);
  for (const int end : ends) close(end);
}

TEST_CASE("no process but a worker or its descendant is ever signalled", "[file_timer]") {
  Timed job;
  Sleeper stranger;
  send(job.timer.path(), request(stranger.pid, 0.0, SIGKILL) + request(getpid(), 0.0, SIGKILL) +
                             request(1, 0.0, SIGKILL) + request(job.worker.pid, 0.05, SIGUSR1));
  REQUIRE(job.until([&] { return job.worker.has_ended(); }));
  CHECK(WTERMSIG(*job.worker.status) == SIGUSR1);  // as it asked
  CHECK_FALSE(stranger.has_ended());
  REQUIRE(job.expiries.size() == 1);
  CHECK(job.expiries.front().timer.scope == "step");
  REQUIRE(job.printed.size() == 1);
  CHECK(job.printed.front().find("is not a worker of this job") != std::string::npos);
}

TEST_CASE("bad lines are named once and passed over, however they are cut", "[file_timer]") {
  Timed job;
  const std::string good = request(job.worker.pid, 0.05, SIGKILL);
  send(job.timer.path(), "rubbish\n\n{\"pid\": 1}\n" + std::string(10'000, 'x'));
  REQUIRE(job.until([&] { return !job.printed.empty(); }));
  send(job.timer.path(), "\n" + good.substr(0, 10));
  send(job.timer.path(), good.substr(10));
  REQUIRE(job.until([&] { return job.worker.has_ended(); }));
  CHECK(job.printed.size() == 1);
  CHECK(job.printed.front().starts_with("a timer request was ignored (not a line of JSON: \"rubbish\")"));
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
  CHECK(refusal(fixture, path) == "made");
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
  CHECK(refusal(fixture, fixture.folder / "link") != "made");
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
