// Jobs in which nobody hangs, though everything takes as long as it likes and people stop the job and look at it: none
// is said to hang, and none is started again.
#include <sys/ptrace.h>

#include "tests/e2e/control_groups.h"
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

using Milliseconds = std::chrono::milliseconds;

void require_quiet(ThreeRanks& job) {
  const std::string err = job.all_err();
  CAPTURE(err);
  REQUIRE_FALSE(has(err, " hangs: "));
  REQUIRE_FALSE(has(err, "restart"));
  REQUIRE_FALSE(job.prints("round 2"));
}

// What people and machines do to a job. Each takes so long, and begins with the job running and ends so.
class Disturbances {
 public:
  Disturbances(ThreeRanks& job, const FreezerGroup& group, std::mt19937_64& random)
      : job_(job), group_(group), random_(random) {
    if (!group.usable()) WARN("no machine is suspended: no freezer group can be made here");
    for (auto& agent : job.agents)
      for (const Process& one : agent->processes())
        if (group.usable()) group.add(one.pid);
  }

  // If the agents of several nodes stand still, their lease may end: a new round is right.
  void one_of_them() { do_one(static_cast<int>(random_() % (job_.agents.size() > 1 ? 2 : 4))); }
  void each_of_them() {
    for (int i = 0; i < (job_.agents.size() > 1 ? 2 : 4); ++i) do_one(i);
  }

 private:
  // Longer than a hang may take to be found; shorter than the lease of a node.
  void take_time() { std::this_thread::sleep_for(Milliseconds(2500 + random_() % 1000)); }

  void do_one(int which) {
    CAPTURE(which);
    if (which == 0) debug();
    if (which == 1) suspend_at_terminal();
    if (which == 2) stop_all();
    if (which == 3 && group_.usable()) suspend_machine();
    require_quiet(job_);
  }

  void debug() {
    const pid_t worker = job_.worker(static_cast<int>(random_() % ThreeRanks::kRanks));
    REQUIRE(ptrace(PTRACE_SEIZE, worker, nullptr, nullptr) == 0);
    REQUIRE(ptrace(PTRACE_INTERRUPT, worker, nullptr, nullptr) == 0);
    take_time();
    siginfo_t stopped{};
    REQUIRE(waitid(P_PID, static_cast<id_t>(worker), &stopped, WSTOPPED | __WALL) == 0);
    REQUIRE(ptrace(PTRACE_DETACH, worker, nullptr, nullptr) == 0);
  }

  void suspend_at_terminal() {
    for (auto& agent : job_.agents) agent->kill(SIGTSTP);
    take_time();
    for (auto& agent : job_.agents) agent->kill(SIGCONT);
  }

  // Every process by itself, in any order.
  void stop_all() {
    std::vector<pid_t> all;
    for (auto& agent : job_.agents)
      for (const Process& one : agent->processes()) all.push_back(one.pid);
    std::shuffle(all.begin(), all.end(), random_);
    for (const pid_t one : all) ::kill(one, SIGSTOP);
    take_time();
    std::shuffle(all.begin(), all.end(), random_);
    for (const pid_t one : all) ::kill(one, SIGCONT);
  }

  void suspend_machine() {
    const FreezerGroup::Frozen frozen(group_);
    take_time();
  }

  ThreeRanks& job_;
  const FreezerGroup& group_;
  std::mt19937_64& random_;
};

void stay_quiet(std::uint64_t seed) {
  const auto end = std::chrono::steady_clock::now() + (soaking() ? 600s : 15s);
  std::mt19937_64 random(seed);
  const int nodes = soaking() && seed % 2 == 0 ? 3 : 1;
  const std::string first_step_s = soaking() ? "60" : "8", step_ms = soaking() && seed % 3 == 0 ? "5" : "50";
  CAPTURE(nodes, step_ms);
  const FreezerGroup group;
  ThreeRanks job(nodes, {}, {programs_folder() + "/restless_worker", std::to_string(seed), step_ms, first_step_s});
  REQUIRE(eventually([&] { return job.prints("trains\n"); }, 180s));
  Disturbances disturbances(job, group, random);
  disturbances.each_of_them();
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(Milliseconds(random() % 4000));
    require_quiet(job);
    disturbances.one_of_them();
  }
  job.stuck.write("enough");
  for (auto& agent : job.agents) REQUIRE(agent->wait_exit(60s) == exited(0));
  require_quiet(job);
  for (auto& agent : job.agents) REQUIRE(has(agent->out(), "done in round 1"));
}

}  // namespace

TEST_CASE("nobody hangs in a job with ten times longer steps, saves and evaluations, that is stopped and looked at",
          "[hang]") {
  Series series(
      std::string("no false alarm: 3 ranks with 10 x jitter, saves, evaluations, a slow first step, a ") +
          "debugger, Ctrl-Z, on 1 node SIGSTOP of all and a frozen machine, for 10 minutes on 1 or 3: no restart",
      1, 2);
  series.run(stay_quiet);
}

TEST_CASE("train that is stopped, frozen and looked at does not hang", "[hang]") {
  std::mt19937_64 random(first_seed());
  const FreezerGroup group;
  ThreeRanks job(1, {}, {train_program(), "100000", "1", "--save-steps=5", "--log-every=1", "--device=cpu"},
                 {{"OMP_NUM_THREADS", "1"}});
  job.agents.front()->wait_for_output("^epoch 2 step 1 ", 60s);
  Disturbances(job, group, random).each_of_them();
  job.agents.front()->kill(SIGTERM);
  CHECK(job.agents.front()->wait_exit(60s) == exited(75));
  CHECK_FALSE(job.prints(" hangs: "));
  CHECK_FALSE(job.prints("restart"));
}
