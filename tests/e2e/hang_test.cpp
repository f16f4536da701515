// Jobs that stand still: who is to blame is found, said and restarted, on one node and on three.
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr const char* kSteps = "60";
const std::string kHangWorker = programs_folder() + "/hang_worker";

const std::vector<HangFault> kFaults = {
    {"loop", "has computed for \\d+\\.\\d s", "ranks \\d and \\d wait for it in grads", "spin_forever"},
    {"deadlock", "has computed for \\d+\\.\\d s", "ranks \\d and \\d wait for it in grads", "lock_twice"},
    {"stop", "has been stopped for \\d+\\.\\d s, in compute", "ranks \\d and \\d wait for it in grads", "(main|have)"},
    {"load", "has waited for data for \\d+\\.\\d s", "ranks \\d and \\d wait for it in grads", "await_batch"},
    {"skip", "has waited in grads for \\d+\\.\\d s", "ranks \\d and \\d wait in metrics", "FileCollectives::wait"},
    {"disk", "has (computed for \\d+\\.\\d s|been held by the kernel for \\d+\\.\\d s in \\w+)",
     "ranks \\d and \\d wait for it in grads", ""},
    {"untold-loop", "has computed for \\d+\\.\\d s", "ranks \\d and \\d wait for it in allreduce", "spin_forever"},
};

// One job: an agent with three workers, or three agents with one each.
struct HangJob : ThreeRanks {
  HangJob(int nodes, const std::vector<std::string>& options, const std::vector<std::string>& worker,
          const std::map<std::string, std::optional<std::string>>& env = {})
      : ThreeRanks(nodes, options, joined({{kHangWorker}, worker}), env) {}
};

void find_each(int nodes, const std::vector<std::string>& always) {
  for (const HangFault& fault : kFaults) {
    const bool tried = std::find(always.begin(), always.end(), fault.name) != always.end();
    const auto find = [&](int rank, int step) -> FindingTimes::Seconds {
      CAPTURE(fault.name, nodes, rank, step);
      HangJob job(nodes, {}, {std::to_string(step + 20), fault.name, std::to_string(rank), std::to_string(step)});
      if (skipped_if(fault.name == "disk" && !job.stuck.mounted(), "no file system can be mounted here")) return {};
      const auto after = find_hang(job, fault, rank, kLimit);
      job.all_end_well();
      for (auto& agent : job.agents) REQUIRE(has(agent->out(), "done in round 2"));
      REQUIRE(has(job.all_err(), "hung"));
      return after;
    };
    find_often("hang: " + fault.name + ", 3 ranks on " + on_nodes(nodes) + ": the right rank is named, exit 0",
               always.empty() || tried ? 1 : 0, find);
  }
}

}  // namespace

TEST_CASE("each kind of hang is found, its rank named, and the job goes on", "[hang][nodes]") { find_each(1, {}); }

TEST_CASE("a hang on one of three nodes is found by all of them together", "[hang][nodes][sanitized]") {
  find_each(3, {"loop", "skip"});
}

TEST_CASE("a save that was told takes its time", "[hang][nodes]") {
  HangJob job(1, {}, {kSteps, "slow-save", "0", "40"});
  REQUIRE(eventually([&] { return job.prints("fault\n"); }, kLimit));
  job.all_end_well();
  CHECK_FALSE(job.prints("hangs"));
}

TEST_CASE("an agent that is stopped is left behind: the others go on, and when it wakes it ends its workers and joins",
          "[hang][nodes]") {
  HangJob job(3, {"--nnodes=2:3"}, {"1200"});
  const int stopped = GENERATE(2, 0);  // node 0 has the coordinator
  for (const int rank : {0, 1, 2}) job.worker(rank);
  const pid_t agent = job.agent_of(stopped), worker = job.worker(stopped);
  ::kill(agent, SIGSTOP);
  for (int node = 0; node < 3; ++node)
    if (node != stopped)
      REQUIRE(eventually([&] { return job.agents[node]->processes("DDPRUN_ROUND", "2").size() == 1; }, 2 * kLimit));
  CHECK(job.agents[stopped]->processes("DDPRUN_ROUND", "2").empty());
  CHECK_FALSE(job.prints("hangs"));
  ::kill(agent, SIGCONT);
  REQUIRE(eventually([&] { return ::kill(worker, 0) != 0; }, kLimit));
  for (auto& node : job.agents)
    REQUIRE(eventually([&] { return node->processes("DDPRUN_ROUND", "3").size() == 1; }, kLimit));
  for (auto& node : job.agents) CHECK(node->wait_exit(200s) == exited(0));
}

TEST_CASE("with the limit off a worker that stands still is named and shown, and nobody is ended", "[hang][nodes]") {
  HangJob job(1, {"--hang-timeout=off", "--rdzv-id=off"}, {kSteps, "stop", "1", "40"});
  REQUIRE(eventually([&] { return job.prints("rank 1 stands still: it has been stopped"); }, kLimit));
  CHECK(job.prints("It is not ended (--hang-timeout off or --watch=see)."));
  const auto shown = [&] { return run({ddprun_program(), "status", "off"}, kLimit).out; };
  CHECK(eventually([&] { return has(shown(), "waits for:  rank 1 has been stopped for "); }, kLimit));
  CHECK_FALSE(job.prints("hangs"));
  ::kill(job.worker(1), SIGCONT);
  REQUIRE(eventually([&] { return job.prints("rank 1 goes on after "); }, kLimit));
  job.all_end_well();
}

TEST_CASE("a pause in inferred phases is named, and the job is done in its first round", "[hang][nodes]") {
  HangJob job(1, {}, {"300", "upload", "1", "40"}, {{"INFERRED", "1"}});
  job.all_end_well();
  CHECK_THAT(job.all_err(),
             Matches("[\\s\\S]*rank 1 stands still: it has computed for \\d\\.\\d s, after step 39; ranks 0 "
                     "and 2 wait for it in grads; in .*upload. It is ended after 60 s "
                     "[\\s\\S]*rank 1 goes on after \\d\\.\\d s.\n[\\s\\S]*"));
  CHECK_FALSE(job.prints("hangs"));
  CHECK(job.prints("done in round 1"));
}

TEST_CASE("where a worker was ended in vain the next one has ten times as long", "[hang][nodes]") {
  HangJob job(1, {}, {kSteps, "upload", "1", "40"});
  job.all_end_well();
  CHECK_THAT(job.all_err(),
             Matches("[\\s\\S]*rank 1 hangs: it has computed for \\d\\.\\d s, .*; in .*upload.\n"
                     "[\\s\\S]*rank 1 stands still: it .*; in .*upload. It is ended after \\d\\d s[\\s\\S]*"));
  CHECK(job.prints("done in round 2"));
}

TEST_CASE("the stacks of a running job's workers are shown, of all its nodes, and nothing stops",
          "[hang][nodes][sanitized]") {
  HangJob job(3, {"--rdzv-id=shown"}, {"100000"});
  for (auto& node : job.agents)
    REQUIRE(eventually([&] { return node->processes("DDPRUN_ROUND", "1").size() == 1; }, kLimit));
  Ended shown;
  const auto all_three = [&] {
    shown = run({ddprun_program(), "stacks", "shown"}, kLimit);
    return has(shown.out, "rank 0 on ") && has(shown.out, "rank 1 on ") && has(shown.out, "rank 2 on ") &&
           !has(shown.out, "before its first step");
  };
  CHECK(eventually(all_three, kLimit));
  CHECK(shown == exited(0));
  CHECK(has(shown.out, "after step "));
  CHECK(has(shown.out, "main"));
  CHECK_FALSE(job.prints("round 2"));
  for (auto& node : job.agents) node->kill(SIGINT);
  for (auto& node : job.agents) CHECK(node->wait_exit(kLimit) == exited(130));
  CHECK(run({ddprun_program(), "stacks", "shown"}, kLimit).code == 2);
  CHECK(run({ddprun_program(), "stacks", "--help"}, kLimit) == exited(0));
}

namespace {

struct Caller {
  std::string name;
  std::vector<std::string> prefix;  // of the command line
};

// By setpriv: an ordinary user, and root as containers have it.
const std::vector<Caller> kCallers = {
    {"ordinary user", {"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"}},
    {"root without CAP_SYS_PTRACE", {"setpriv", "--bounding-set=-sys_ptrace", "--inh-caps=-all"}}};

}  // namespace

TEST_CASE("the function that a worker hangs in is known to an ordinary user, and without CAP_SYS_PTRACE",
          "[hang][nodes]") {
  for (const Caller& caller : kCallers) {
    CAPTURE(caller.name);
    if (run(joined({caller.prefix, {"test", "-x", kHangWorker}}), kLimit) != exited(0)) {
      WARN("skipped: " + caller.name + " cannot be had here");
      continue;
    }
    const TempFolder folder;
    fs::permissions(folder.path(), fs::perms::all);
    const Words job{kDdprun, "--nproc-per-node=2", "--stop-grace=2", "--log-dir=logs", kHangWorker, kSteps, "loop", "1",
                    "40"};
    Command ddprun(joined({caller.prefix, job}),
                   {.env = {{"HOME", folder.path()}, {"XDG_RUNTIME_DIR", ""}}, .cwd = folder.path()});
    ddprun.wait_for_output("rank 1 hangs: it has computed for \\d+\\.\\d s, .*; in .*spin_forever", kLimit);
    CHECK(ddprun.wait_exit(kLimit) == exited(0));
  }
}

TEST_CASE("the next start of a job knows how long its steps take", "[hang][nodes]") {
  const TempFolder folder;
  const auto start = [&](const std::vector<std::string>& worker) {
    return joined(
        {{kDdprun, "--nproc-per-node=2", "--stop-grace=2", "--rdzv-id=kept", "--state-dir=state", kHangWorker},
         worker});
  };
  const auto learned = [&] { return has(read_file(folder / "state/kept.ledger.json"), "\"learned\""); };
  Command first(start({"3000"}), {.cwd = folder.path()});
  REQUIRE(eventually(learned, kLimit));
  first.kill(SIGTERM);
  first.wait_exit(kLimit);
  REQUIRE(learned());
  Command second(start({kSteps, "loop", "1", "9"}), {.cwd = folder.path()});  // before ten steps
  second.wait_for_output("rank 1 hangs: it has computed for \\d+\\.\\d s", kLimit);
  CHECK(second.wait_exit(kLimit) == exited(0));
}

TEST_CASE("the stacks of a rank that stands still are kept when another one's time-out ends it", "[hang][nodes]") {
  HangJob job(1, {"--log-dir=logs", "--rdzv-id=job"}, {kSteps, "time-out", "1", "40"});
  job.all_end_well();
  CHECK_FALSE(job.prints("hangs"));
  CHECK(job.prints("SIGALRM"));
  std::string stacks;
  for (const auto& entry : fs::recursive_directory_iterator(job.stuck.folder() / "logs"))
    if (entry.path().filename() == "stacks.txt") stacks += entry.path().string() + "\n" + read_file(entry.path());
  CHECK_THAT(stacks, Matches("[\\s\\S]*/rank-1/stacks.txt\n[\\s\\S]*spin_forever[\\s\\S]*"));
  CHECK_FALSE(has(stacks, "/rank-0/stacks.txt"));
}
