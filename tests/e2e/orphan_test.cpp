// Whatever dies, nothing of the job is alive a second later: not the workers, not what they forked, whatever session or
// parent it fled to.
#include <csignal>
#include <cstdlib>
#include <random>

#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

const std::string kDdprun = std::string(DDPRUN_BIN_DIR) + "/ddprun";
constexpr auto kLimit = 20s;

// Each worker leaves a deaf child in its group, a deaf one in a session of its own, and a double-forked one there.
const std::string kNasty =
    "trap '' TERM HUP INT; sleep 600 & setsid sleep 600 & (setsid sh -c 'trap \"\" TERM HUP; sleep 600 & sleep 600' &) "
    "; ";

std::vector<std::string> nasty_job(const std::string& then) {
  return {kDdprun, "--nproc_per_node=2", "--stop-grace=0.2", "sh", "-c", kNasty + then};
}

// Waits until all that the workers start is there: per worker itself, its four sleepers and a shell.
void wait_until_up(Command& job) {
  REQUIRE(eventually(
      [&] {
        std::size_t sleepers = 0;
        for (const Process& process : job.processes()) sleepers += process.command_line.find("sleep") == 0;
        return sleepers >= 2 * 4;
      },
      kLimit));
}

pid_t agent_of(Command& job) {  // the keeper's only child
  const std::string children =
      read_file("/proc/" + std::to_string(job.pid()) + "/task/" + std::to_string(job.pid()) + "/children");
  return std::atoi(children.c_str());
}

int repeats() { return std::getenv("DDPRUN_SOAK") ? 20 : 1; }

}  // namespace

TEST_CASE("kill -9 of the pid a person sees leaves nothing") {
  for (int i = 0; i < repeats(); ++i) {
    Command job(nasty_job("wait"));
    wait_until_up(job);
    job.kill(SIGKILL);
    CHECK(job.all_gone(1s));
  }
}

TEST_CASE("kill -9 of the agent leaves nothing, and ddprun's status tells it") {
  for (int i = 0; i < repeats(); ++i) {
    Command job(nasty_job("wait"));
    wait_until_up(job);
    kill(agent_of(job), SIGKILL);
    CHECK(job.wait_exit(kLimit) == exited(137));
    CHECK(job.all_gone(1s));
  }
}

TEST_CASE("SIGTERM leaves nothing") {
  for (int i = 0; i < repeats(); ++i) {
    Command job(nasty_job("wait"));
    wait_until_up(job);
    job.kill(SIGTERM);
    CHECK(job.wait_exit(kLimit) == exited(143));
    CHECK(job.all_gone(1s));
  }
}

TEST_CASE("workers that end well leave no children behind") {
  for (int i = 0; i < repeats(); ++i) {
    Command job(nasty_job("exit 0"));
    CHECK(job.wait_exit(kLimit) == exited(0));
    CHECK(job.all_gone(1s));
  }
}

TEST_CASE("a restart starts on a clean machine: what the old round left is gone before the new one starts") {
  Command job(nasty_job("[ $DDPRUN_ROUND = 2 ] || exit 3; echo second round; wait"));
  job.wait_for_output("second round", kLimit);
  wait_until_up(job);
  for (const Process& process : job.processes())
    if (const auto env = environment_of(process.pid); env.count("DDPRUN_ROUND")) CHECK(env.at("DDPRUN_ROUND") == "2");
}

TEST_CASE("killed at any moment of its start, ddprun leaves nothing") {
  std::mt19937 random(1);
  for (int i = 0; i < 10 * repeats(); ++i) {
    Command job({kDdprun, "--nproc_per_node=8", "sleep", "600"});
    const auto moment = std::chrono::microseconds(random() % 12'000);
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < moment) continue;  // the moment is the test's subject
    job.kill(SIGKILL);
    CHECK(job.all_gone(1s));
  }
}

TEST_CASE("what outlives keeper and agent, both killed at once, is ended by the next run of the job") {
  const std::vector<std::string> named{kDdprun, "--rdzv-id=orphans", "sh", "-c"};
  auto words = named;
  words.push_back("setsid sleep 600 & wait");
  Command job(words);
  REQUIRE(eventually([&] { return job.processes("DDPRUN_ROUND", "1").size() == 2; }, kLimit));
  const pid_t agent = agent_of(job);
  job.kill(SIGSTOP);  // so that neither sees the other die
  kill(agent, SIGSTOP);
  job.kill(SIGKILL);
  kill(agent, SIGKILL);
  REQUIRE(eventually([&] { return job.processes("DDPRUN_ROUND", "1").size() == 1; }, kLimit));
  words = named;
  words.push_back("true");
  const Ended next = run(words, kLimit);
  CHECK(next == exited(0));
  CHECK(next.err == "ddprun: ended 1 processes that an earlier run of job orphans had left behind.\n");
  CHECK(job.all_gone(1s));
}

TEST_CASE("a run of the same name that is alive is left alone") {
  Command job({kDdprun, "--rdzv-id=twins", "sleep", "600"});
  job.wait_for_process("DDPRUN_ROUND", "1", kLimit);
  CHECK(run({kDdprun, "--rdzv-id=twins", "true"}, kLimit) == exited(0));
  CHECK(job.processes("DDPRUN_ROUND", "1").size() == 1);
}
