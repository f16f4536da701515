// --preemption-probe: when its command runs and what its end means, as a value; then with real files and commands.
#include "agent/machine/preemption_probe.h"

#include "tests/support/test.h"

namespace {

const TimePoint t0{};
constexpr auto kLimit = 20s;

// A probe in a loop of its own, until it has said something.
class ProbeRun {
 public:
  explicit ProbeRun(ProbeTarget target, ProbeLimits limits = {})
      : probe_(io_, std::move(target), {"PATH=/usr/bin:/bin"},
               {[this](const std::string& why) { said_ = "preempted: " + why; },
                [this](const std::string& sentence) { said_ = sentence; }, [this] { ++reaped_; }},
               limits) {
    probe_.start();
  }
  ~ProbeRun() {  // no zombie is left to other tests
    probe_.stop();
    until([this] { return !probe_.child(); });
  }
  ProbeRun(const ProbeRun&) = delete;
  ProbeRun& operator=(const ProbeRun&) = delete;
  // Runs the loop until `done`.
  bool until(const std::function<bool()>& done) {
    return eventually([&] { return io_.restart(), io_.poll(), done(); }, kLimit);
  }
  void run_once() { io_.run_one(); }
  std::string says() {
    REQUIRE(until([this] { return !said_.empty(); }));
    return said_;
  }
  bool has_ended_once() {
    return until([this] { return reaped_ > 0; });
  }
  const std::string& said() const { return said_; }
  PreemptionProbe& probe() { return probe_; }

 private:
  asio::io_context io_;
  std::string said_;
  int reaped_ = 0;
  PreemptionProbe probe_;
};

// Not dead, and no zombie.
bool lives(pid_t pid) {
  const std::string stat = read_file("/proc/" + std::to_string(pid) + "/stat");
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

}  // namespace

TEST_CASE("a probe's command runs every 5 s, from start to start", "[probe]") {
  ProbeSchedule schedule(t0);
  CHECK(schedule.next() == t0);
  CHECK(schedule.due(t0) == ProbeTask::start);
  CHECK(schedule.due(t0 + 1s) == ProbeTask::none);
  CHECK(schedule.ended(ExitStatus{.code = 22}, t0 + 1s) == ProbeAnswer::none);
  CHECK(schedule.next() == t0 + 5s);
  CHECK(schedule.due(t0 + 4s) == ProbeTask::none);
  CHECK(schedule.due(t0 + 5s) == ProbeTask::start);
  CHECK(schedule.ended(ExitStatus{.code = 7}, t0 + 12s) == ProbeAnswer::none);
  CHECK(schedule.next() == t0 + 12s);  // it took longer: the next one at once
}

TEST_CASE("a probe's exit code 0 says that the machine is being preempted, and no other end does", "[probe]") {
  const auto answer = [](const std::optional<ExitStatus>& status) {
    ProbeSchedule schedule(t0);
    schedule.due(t0);
    return schedule.ended(status, t0 + 1s);
  };
  CHECK(answer(ExitStatus{}) == ProbeAnswer::preempted);
  CHECK(answer(ExitStatus{.code = 1}) == ProbeAnswer::none);
  CHECK(answer(ExitStatus{.signal = SIGKILL}) == ProbeAnswer::none);
  CHECK(answer(std::nullopt) == ProbeAnswer::none);
  CHECK(answer(ExitStatus{.code = 126}) == ProbeAnswer::cannot_run);
  CHECK(answer(ExitStatus{.code = 127}) == ProbeAnswer::cannot_run);
  CHECK(answer(ExitStatus{.start_error = 2}) == ProbeAnswer::cannot_run);
}

TEST_CASE("a probe that cannot run or takes too long is said once, and tried again", "[probe]") {
  ProbeSchedule schedule(t0);
  TimePoint now = t0;
  for (const bool first : {true, false}) {
    CHECK(schedule.due(now) == ProbeTask::start);
    CHECK(schedule.ended(ExitStatus{.code = 127}, now) == (first ? ProbeAnswer::cannot_run : ProbeAnswer::none));
    now = schedule.next();
  }
  for (const bool first : {true, false}) {
    CHECK(schedule.due(now) == ProbeTask::start);
    CHECK(schedule.next() == now + 10s);
    now = schedule.next();
    CHECK(schedule.due(now) == ProbeTask::kill);
    CHECK(schedule.next() == TimePoint::max());  // its end is to come
    CHECK(schedule.ended(ExitStatus{.signal = SIGKILL}, now) == (first ? ProbeAnswer::too_slow : ProbeAnswer::none));
    CHECK(schedule.next() == now);
  }
}

TEST_CASE("a path without blanks that cannot be run is a file, anything else a command", "[probe]") {
  const auto is_file = [](const std::string& text, bool can_be_run = false) {
    return probe_target(text, [&](const std::string&) { return can_be_run; }).file;
  };
  CHECK(is_file("/run/preempted"));
  CHECK(is_file("./preempted"));
  CHECK(is_file("../preempted"));
  CHECK_FALSE(is_file("/usr/local/bin/preempted", true));
  CHECK_FALSE(is_file("preempted"));
  CHECK_FALSE(is_file("/usr/bin/test -e /run/preempted"));
  CHECK_FALSE(is_file("curl -sf http://169.254.169.254/latest/meta-data/spot/instance-action"));
}

TEST_CASE("a file that appears is a notice", "[probe]") {
  const TempFolder folder;
  ProbeRun run({folder / "preempted", true});
  run.run_once();
  CHECK(run.said().empty());
  folder.write("preempted", "");
  CHECK(run.says() == "preempted: " + (folder / "preempted").string() + " exists");
}

TEST_CASE("a command that exits with 0 is a notice, and its output is not shown", "[probe]") {
  ProbeRun run({"echo shown; echo shown >&2; true", false});
  CHECK(run.says() == "preempted: the preemption probe 'echo shown; echo shown >&2; true' exited with 0");
}

TEST_CASE("a command that cannot be run is named", "[probe]") {
  ProbeRun run({"no-such-probe --now", false});
  CHECK(run.says() ==
        "sh cannot run the preemption probe 'no-such-probe --now' (--preemption-probe): until it can, no notice comes "
        "from it");
}

TEST_CASE("what a command leaves in its process group ends with it, and with the probe", "[probe]") {
  const TempFolder folder;
  const std::string child = "sleep 600 & echo $! >" + (folder / "child").string();
  const auto pid_of_child = [&] { return std::stoi("0" + read_file(folder / "child")); };
  {
    ProbeRun run({child + "; exit 1", false});
    REQUIRE(run.has_ended_once());
    CHECK(eventually([&] { return pid_of_child() > 0 && !lives(pid_of_child()); }, kLimit));
    CHECK(run.said().empty());
  }
  folder.write("child", "");
  ProbeRun run({child + "; wait", false});
  REQUIRE(run.until([&] { return pid_of_child() > 0; }));
  const pid_t shell = *run.probe().child();
  run.probe().stop();
  REQUIRE(run.has_ended_once());
  CHECK_FALSE(lives(shell));
  CHECK(eventually([&] { return !lives(pid_of_child()); }, kLimit));
  CHECK(run.said().empty());
}

TEST_CASE("a command that hangs is killed at its limit, with what it started, and run again", "[probe]") {
  const TempFolder folder;
  const std::string runs = (folder / "runs").string();
  ProbeRun run({"sleep 600 & echo $! >>" + runs + "; wait", false}, {.every = 10ms, .run_max = 200ms});
  CHECK(run.says() == "the preemption probe 'sleep 600 & echo $! >>" + runs +
                          "; wait' (--preemption-probe) did not end within 1 s and was killed: it is tried again");
  const std::string first = read_file(runs);
  CHECK(eventually([&] { return !lives(std::stoi("0" + first)); }, kLimit));
  CHECK(run.until([&] { return read_file(runs).size() > first.size(); }));
}

TEST_CASE("a command that a sweep has ended and reaped is run again", "[probe][waits]") {
  const TempFolder folder;
  ProbeRun run({"echo >>" + (folder / "runs").string() + "; [ $(wc -l <" + (folder / "runs").string() +
                    ") = 2 ] || exec sleep 600",
                false},
               {.every = 1s});
  REQUIRE(run.until([&] { return !read_file(folder / "runs").empty(); }));
  const pid_t child = *run.probe().child();
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(run.says().starts_with("preempted: "));
}
