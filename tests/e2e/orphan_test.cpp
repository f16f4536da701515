// Whatever dies, no process of the job is alive a second later: neither workers nor what they forked, whatever its
// session or parent. Each way to die is tested with each kind of descendant: all kinds at once in every test run, one
// by one and in random pairings in a soak.
#include <sys/ptrace.h>

#include "tests/e2e/orphan_job.h"
#include "tests/e2e/programs.h"
#include "tests/e2e/ways_to_die.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

std::vector<std::string> without(std::vector<std::string> kinds, const std::vector<std::string>& missing) {
  std::erase_if(kinds, [&](const auto& kind) { return std::count(missing.begin(), missing.end(), kind) > 0; });
  return kinds;
}

void leaves_nothing(const WayToDie& way, const std::vector<std::string>& kinds, int workers, Random& random) {
  std::string shown = way.name + " with " + std::to_string(workers) + " workers and";
  for (const std::string& kind : kinds) shown += " " + kind;
  INFO(shown);
  OrphanJob job({way.options, without(kinds, way.misses), way.then, way.terminal ? 1 : workers, {}, way.terminal});
  way.trigger(job, random);
  const Ended ended = job.command().wait_exit(kLimit);
  if (way.code >= 0 && !kSanitized) CHECK(ended == exited(way.code));  // sanitizers exit with their own codes
  CHECK(job.left() == "");
}

std::vector<WayToDie> ways_named(const std::string& begin) {
  std::vector<WayToDie> ways = ways_to_die();
  std::erase_if(ways, [&](const WayToDie& way) { return !way.name.starts_with(begin); });
  REQUIRE_FALSE(ways.empty());
  return ways;
}

// Tests all ways whose names begin with `begin`, with all kinds at once; in a soak also with each kind alone.
void leaves_nothing(const std::string& begin) {
  Random random(first_seed());
  for (const WayToDie& way : ways_named(begin)) {
    leaves_nothing(way, kAllKinds, 2, random);
    if (!soaking()) continue;
    for (const std::string& kind : kAllKinds) leaves_nothing(way, {kind}, 2, random);
  }
}

}  // namespace

TEST_CASE("no signal to the pid a person sees leaves anything") { leaves_nothing("the keeper gets"); }
TEST_CASE("no signal to the agent leaves anything") { leaves_nothing("the agent gets"); }
TEST_CASE("SIGTERM leaves nothing") { leaves_nothing("SIGTERM"); }
TEST_CASE("Ctrl-C twice leaves nothing, however long the grace") { leaves_nothing("Ctrl-C twice"); }
TEST_CASE("option --max-run leaves nothing") { leaves_nothing("--max-run"); }
TEST_CASE("workers that end well leave no children behind") { leaves_nothing("success"); }
TEST_CASE("a job that fails leaves nothing") { leaves_nothing("failure"); }
TEST_CASE("kill -9 of a worker leaves nothing") { leaves_nothing("worker killed"); }

TEST_CASE("a worker's process group ends with it, while other ranks go on") { leaves_nothing("rank 0 leaves"); }

TEST_CASE("a restart starts on a clean machine: what the old round left is gone before the new one starts") {
  leaves_nothing("restart");
}

TEST_CASE("keeper or agent, stopped while the other is killed, wakes up and leaves nothing") {
  leaves_nothing("the keeper stopped");
  leaves_nothing("the agent stopped");
}

// The kernel wakes an orphaned process group itself; here the group is not orphaned.
TEST_CASE("a stopped agent wakes up when the keeper is killed, also under a shell that adopts it") {
  const std::string shell =
      "import ctypes, os, sys, time; ctypes.CDLL(None).prctl(36, 1); "  // PR_SET_CHILD_SUBREAPER
      "os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:]); time.sleep(600)";
  Command job({"python3", "-c", shell, ddprun_program(), "sleep", "600"});
  job.wait_for_process("DDPRUN_ROUND", "1", kLimit);
  const pid_t keeper = first_child_of(job.pid());
  kill(first_child_of(keeper), SIGSTOP);
  kill(keeper, SIGKILL);
  CHECK(eventually([&] { return job.processes("DDPRUN_ROUND", "1").empty(); }, gone_within()));
}

// Only its main thread is blocked, as by an unresponsive file system.
TEST_CASE("a stuck agent ends with its workers when the keeper is killed") {
  Command job({ddprun_program(), "sleep", "600"});
  job.wait_for_process("DDPRUN_ROUND", "1", kLimit);
  const pid_t agent = first_child_of(job.pid());
  if (skipped_if(ptrace(PTRACE_SEIZE, agent, 0, 0) != 0 || ptrace(PTRACE_INTERRUPT, agent, 0, 0) != 0,
                 "no process may be traced here"))
    return;
  waitpid(agent, nullptr, __WALL);
  kill(job.pid(), SIGKILL);
  CHECK(eventually([&] { return job.processes("DDPRUN_ROUND", "1").empty(); }, kLimit));
  CHECK(eventually([&] { return waitpid(agent, nullptr, WNOHANG | __WALL) == agent; }, kLimit));
}

TEST_CASE("killed at any moment of its start, ddprun leaves nothing") {
  for (const std::string who : {"the keeper", "the agent"}) {
    const WayToDie way = ways_named(who + " killed while starting").at(0);
    Series("orphans: " + way.name + ", at a random microsecond: nothing left", 8, 200).run([&](std::uint64_t seed) {
      Random random(seed);
      leaves_nothing(way, kAllKinds, 2, random);
    });
  }
}

TEST_CASE("any descendants, whatever their number and the job's way to die: nothing is left") {
  const std::vector<WayToDie> all = ways_to_die();
  Series("orphans: random way to die, random kinds of descendants, 1 to 4 workers: nothing left", 4, 200)
      .run([&](std::uint64_t seed) {
        Random random(seed);
        std::vector<std::string> kinds = kAllKinds;
        std::shuffle(kinds.begin(), kinds.end(), random);
        kinds.resize(1 + random() % kinds.size());
        const WayToDie& way = all[random() % all.size()];
        leaves_nothing(way, kinds, 1 + static_cast<int>(random() % 4), random);
      });
}

TEST_CASE("a worker killed before it has become its program fails the job and leaves nothing") {
  const WayToDie way = ways_named("worker killed between fork and exec").at(0);
  Series("orphans: " + way.name + ": exit 1, nothing left", 5, 200).run([&](std::uint64_t seed) {
    Random random(seed);
    leaves_nothing(way, kAllKinds, 4, random);
  });
}

TEST_CASE("a worker in the terminal's foreground leaves nothing") { leaves_nothing("at a terminal"); }

TEST_CASE("with workers from a template no way to die leaves anything either") {
  const std::vector<std::string> often = {"the keeper gets signal 9", "the agent gets signal 9", "restart", "SIGTERM",
                                          "worker killed"};
  Random random(first_seed());
  for (WayToDie way : ways_to_die()) {
    if (way.name.find("between fork and exec") != way.name.npos) continue;  // there is no exec
    if (!soaking() && std::count(often.begin(), often.end(), way.name) == 0) continue;
    way.options.insert(way.options.begin(), "--prefork");
    leaves_nothing(way, kAllKinds, 2, random);
  }
}

TEST_CASE("what outlives keeper and agent, both killed at once, is ended by the next run of the job") {
  leaves_nothing("both killed at once");
  const std::string id = "orphans-" + std::to_string(getpid());
  const auto words = [&](const std::string& script) {
    return std::vector<std::string>{ddprun_program(), "--rdzv-id=" + id, "sh", "-c", script};
  };
  REQUIRE(eventually(
      [&] {  // the second may run again before it is killed, too: then nothing is left, and we try again
        Command job(words("setsid sleep 600 & wait"));
        const auto its_processes = [&] { return job.processes("DDPRUN_ROUND", "1").size(); };
        REQUIRE(eventually([&] { return its_processes() == 2; }, kLimit));
        kill_both(job.pid(), first_child_of(job.pid()));
        REQUIRE(eventually([&] { return its_processes() < 2 && job.processes().size() < 2; }, kLimit));
        if (its_processes() == 0) return false;
        const Ended next = run(words("true"), kLimit);
        CHECK(next == exited(0));
        CHECK(next.err == "ddprun: ended 1 processes that an earlier run of job " + id + " had left behind.\n");
        CHECK(job.all_gone(gone_within()));
        return true;
      },
      kLimit));
}

TEST_CASE("a run of the same name that is alive is left alone") {
  Command job({ddprun_program(), "--rdzv-id=twins", "sleep", "600"});
  job.wait_for_process("DDPRUN_ROUND", "1", kLimit);
  CHECK(run({ddprun_program(), "--rdzv-id=twins", "true"}, kLimit) == exited(0));
  CHECK(job.processes("DDPRUN_ROUND", "1").size() == 1);
}

TEST_CASE("started with SIGCHLD ignored, ddprun sees its workers end all the same") {
  const std::string ignoring =
      "import os, signal, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN); "
      "os.execv(sys.argv[1], sys.argv[1:])";
  OrphanJob job({.then = "exit:0", .before = {"python3", "-c", ignoring}});
  CHECK(job.command().wait_exit(kLimit) == exited(0));
  CHECK(job.left() == "");
}

TEST_CASE("started with signals blocked, ddprun can be stopped all the same") {
  const std::string blocking =
      "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 32)); "
      "os.execv(sys.argv[1], sys.argv[1:])";
  OrphanJob job({.before = {"python3", "-c", blocking}});
  job.wait_until("up");
  job.command().kill(SIGTERM);
  CHECK(job.command().wait_exit(kLimit) == exited(143));
  CHECK(job.left() == "");
}

TEST_CASE("children of the shell that became ddprun are not the job's, and live on") {
  const std::string own_child = "sleep 600 & exec \"$@\"";
  OrphanJob job({.then = "exit:0", .before = {"sh", "-c", own_child, "sh"}});
  CHECK(job.command().wait_exit(kLimit) == exited(0));
  CHECK(job.left() == "");
  const std::vector<Process> living = job.command().processes();
  REQUIRE(living.size() == 1);
  CHECK(living[0].command_line == "sleep 600 ");
}
