// --health-check with real commands.
#include "agent/machine/health_check.h"

#include "agent/machine/machine_limits.h"
#include "tests/support/test.h"

namespace {

// A check in a loop of its own; `results` are what it reported, "passes" or why not.
class Check {
 public:
  explicit Check(const std::string& command, HealthTiming timing = {.retry_first = 10ms, .retry_max = 20ms},
                 bool asks_machine = false)
      : health_(
            io_, asks_machine ? built_in() : nullptr, command, {"PATH=/usr/bin:/bin"},
            [this] { results_.push_back(*health_.passed() ? "passes" : health_.why()); }, timing) {}
  ~Check() {
    health_.stop();
    until([this] { return !health_.child(); });
  }
  Check(const Check&) = delete;
  Check& operator=(const Check&) = delete;

  bool until(const std::function<bool()>& done) {
    return eventually([&] { return io_.restart(), io_.poll(), done(); }, 20s);
  }
  std::string result(std::size_t number) {
    REQUIRE(until([&] { return results_.size() >= number; }));
    return results_[number - 1];
  }
  std::string asked(std::size_t number) {
    health_.check();
    return result(number);
  }
  HealthCheck& health() { return health_; }

  // What the built-in check says, and when. A thread may ask for it after our end. Set it before a check.
  struct Machine {
    std::string unfit;
    std::chrono::milliseconds answers_after{0};
  };
  Machine& machine() { return *machine_; }

 private:
  HealthCheck::BuiltIn built_in() const {
    return [machine = machine_] {
      std::this_thread::sleep_for(machine->answers_after);
      return machine->unfit;
    };
  }

  asio::io_context io_;
  std::shared_ptr<Machine> machine_ = std::make_shared<Machine>();
  HealthCheck health_;
  std::vector<std::string> results_;
};

}  // namespace

TEST_CASE("a check that fails says why by its last line, and is repeated until it passes", "[health]") {
  const TempFolder folder;
  Check check("echo all is bad; echo GPU 3 is gone >&2; echo x >> " + (folder / "runs").string() + "; test -e " +
              (folder / "ok").string());
  CHECK(check.asked(1) == "exited with code 1: GPU 3 is gone");
  REQUIRE(check.until([&] { return read_file(folder / "runs").size() >= 6; }));  // reported once
  folder.write("ok", "");
  CHECK(check.result(2) == "passes");
  CHECK(check.health().passed() == true);
}

TEST_CASE("a check's output goes through a pipe, of which the end is kept", "[health]") {
  Check check("head -c 3000000 /dev/zero; echo; readlink /proc/self/fd/1; exit 1");
  CHECK_THAT(check.asked(1), StartsWith("exited with code 1: pipe:"));
}

TEST_CASE("a check that does not end in time is killed with all that it started, and has failed", "[health][waits]") {
  const TempFolder folder;
  Check check("sleep 60 & echo $! > " + (folder / "pid").string() + "; wait",
              {.run_max = 1s, .retry_first = 60s, .retry_max = 60s});
  CHECK(check.asked(1) == "it did not end in time");
  CHECK(eventually([&] { return kill(std::stoi(read_file(folder / "pid")), 0) != 0; }, 20s));
}

// Not under TSan: other tests fork, which it allows only while no further thread runs, and this one leaves one.
TEST_CASE("a machine that does not answer has failed", "[health][not-tsan]") {
  Check check("true", {.built_in_max = 50ms, .retry_first = 60s, .retry_max = 60s}, true);
  check.machine().answers_after = 500ms;
  CHECK(check.asked(1) == "its disks or its GPUs do not answer");
}

TEST_CASE("after a failure here the last result counts no longer, and the next one is reported", "[health]") {
  Check check("true");
  CHECK_FALSE(check.health().passed());
  CHECK(check.asked(1) == "passes");
  check.health().suspect();
  CHECK_FALSE(check.health().passed());
  CHECK(check.asked(2) == "passes");
}

TEST_CASE("what the machine lacks is said without asking the command, which is asked when it has it",
          "[health][not-tsan]") {
  const TempFolder folder;
  Check check("touch " + (folder / "asked").string(), {}, true);
  check.machine().unfit = "no disk space";
  CHECK(check.asked(1) == "no disk space");
  CHECK_FALSE(fs::exists(folder / "asked"));
  Check healthy("touch " + (folder / "asked").string(), {}, true);
  CHECK(healthy.asked(1) == "passes");
  CHECK(fs::exists(folder / "asked"));
  Check without_command("");
  CHECK(without_command.asked(1) == "passes");
}

TEST_CASE("a machine is unfit by the first thing that it lacks", "[health]") {
  const std::uint64_t gib = 1 << 30;
  const MachineLimits limits{.disk_bytes = 10 * gib, .gpu_memory_percent = 90, .clock = 1s};
  const MachineFacts good{.disks = {{".", 10 * gib}}, .gpus = {{0, 80 * gib, 80 * gib}}, .clock_error = 10ms};
  CHECK(why_unfit(limits, good).empty());
  MachineFacts bad = good;
  bad.clock_error = 2s;
  CHECK(why_unfit(limits, bad) == "its clock may be wrong by 2 s, more than 1 s");
  bad.clock_error.reset();
  CHECK(why_unfit(limits, bad) == "no NTP daemon keeps its clock, so nobody knows how right it is");
  bad.gpus.push_back({3, 80 * gib, 20 * gib});
  CHECK(why_unfit(limits, bad) == "GPU 3 has 25 % of its memory free, less than 90 %");
  bad.disks.push_back({"logs", 3 << 20});
  CHECK(why_unfit(limits, bad) == "logs has 3 MiB of disk space left, less than 10 GiB");
  CHECK(why_unfit({}, bad).empty());
  bad = good;
  bad.gpus.push_back({.index = 1, .readable = false});
  CHECK(why_unfit(limits, bad) == "GPU 1 does not say how much of its memory is free");
  bad.disks = {{"logs", {}}};
  CHECK(why_unfit(limits, bad) == "logs does not say how much disk space is left");
}

TEST_CASE("the machine's own facts are read, and only those that are asked for", "[health]") {
  const MachineFacts disk = machine_facts({.disk_bytes = 1}, {".", "/nonsuch"});
  REQUIRE(disk.disks.size() == 2);
  CHECK(disk.disks.front().bytes > 0u);
  CHECK_FALSE(disk.disks.back().bytes);
  CHECK_FALSE(disk.clock_error);
  machine_facts({.gpu_memory_percent = 1, .clock = 1s}, {});  // none of both may be there
}
