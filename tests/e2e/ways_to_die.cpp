#include "tests/e2e/ways_to_die.h"

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace ddprun::test {
namespace {

using Clock = std::chrono::steady_clock;
using Fault = std::function<void(OrphanJob&, Random&)>;

enum class Who { keeper, agent };

pid_t pid_of(Who who, const OrphanJob& job) { return who == Who::keeper ? job.keeper() : job.agent(); }
Who other(Who who) { return who == Who::keeper ? Who::agent : Who::keeper; }
std::string name_of(Who who) { return who == Who::keeper ? "the keeper" : "the agent"; }

void nothing(OrphanJob&, Random&) {}

Fault gets(Who who, int signal) {
  return [=](OrphanJob& job, Random&) {
    job.wait_until("up");
    kill(pid_of(who, job), signal);
  };
}

// A stopped process cannot act when the other dies: it has to be woken.
Fault stopped_while_the_other_dies(Who stopped) {
  return [=](OrphanJob& job, Random&) {
    job.wait_until("up");
    const pid_t victim = pid_of(other(stopped), job);
    kill(pid_of(stopped, job), SIGSTOP);
    kill(victim, SIGKILL);
  };
}

// The time from the start until all is up, measured on this machine.
Clock::duration usual_start() {
  OrphanJob job({});
  job.wait_until("up");
  return Clock::now() - job.started();
}

// Some are killed shortly after their start, too.
Fault killed_while_starting(Who who) {
  return [=](OrphanJob& job, Random& random) {
    static const auto start = usual_start();
    const auto moment = job.started() + start * (random() % 1200) / 1000;
    poll_until([&] { return Clock::now() >= moment && pid_of(who, job) != 0; });
    kill(pid_of(who, job), SIGKILL);
  };
}

// Its program's start takes longer than our poll.
void worker_killed_before_its_program_runs(OrphanJob& job, Random&) {
  pid_t agent = 0, worker = 0;
  poll_until([&] { return (agent = job.agent()) != 0; });
  poll_until([&] { return (worker = first_child_of(agent)) != 0; });
  kill(worker, SIGKILL);
}

void worker_killed(OrphanJob& job, Random& random) {
  job.wait_until("up");
  const pid_t worker = job.worker(static_cast<int>(random() % static_cast<unsigned>(job.workers())));
  REQUIRE(worker > 0);
  kill(worker, SIGKILL);
}

void ctrl_c_twice(OrphanJob& job, Random&) {
  job.wait_until("deaf");
  job.command().kill(SIGINT);
  job.command().wait_for_output("SIGINT: stopping", kLimit);
  job.command().kill(SIGINT);
}

void ctrl_c_typed_twice(OrphanJob& job, Random&) {
  job.wait_until("deaf");
  job.command().type("\x03");
  job.command().wait_for_output("SIGINT: stopping", kLimit);
  job.command().type("\x03");
}

void starts_clean_again(OrphanJob& job, Random&) {
  const std::string out = job.command().wait_exit(kLimit).out;
  CHECK(out.find("round 2 found:.") != out.npos);
  CHECK(out.find("found: ") == out.npos);
}

bool none_of(const OrphanJob& job, bool (*which)(const Descendant&)) {
  const auto all = processes_of(job.folder());
  return std::none_of(all.begin(), all.end(), which);
}

bool is_ddprun(const Descendant& one) { return one.words.front() == ddprun_program(); }

bool ends_with_rank_0s_group(const Descendant& one) {
  const std::string& name = one.words.back();
  return name.starts_with("1.0.") && !name.ends_with("session") && !name.ends_with("daemon");
}

void rank_0_leaves(OrphanJob& job, Random&) {
  job.wait_until("up");
  if (job.workers() > 1) CHECK(eventually([&] { return none_of(job, ends_with_rank_0s_group); }, gone_within()));
  job.go_on();
}

// The survivors of both are found by the next run of the job.
void both_killed_at_once(OrphanJob& job, Random&) {
  job.wait_until("up");
  kill_both(job.keeper(), job.agent());
  REQUIRE(eventually([&] { return job.command().ended() && none_of(job, is_ddprun); }, kLimit));
  CHECK(run({ddprun_program(), "--rdzv-id=" + job.name(), "true"}, kLimit) == exited(0));
}

// A signal to the keeper reaches the agent, and the exit status shows it; SIGKILL cannot be forwarded.
WayToDie signalled(Who who, int signal) {
  return {name_of(who) + " gets signal " + std::to_string(signal),
          {},
          "wait",
          gets(who, signal),
          signal == SIGKILL && who == Who::keeper ? -1 : 128 + signal};
}

}  // namespace

std::vector<WayToDie> ways_to_die() {
  std::vector<WayToDie> all{
      {"success", {}, "exit:0", nothing, 0},
      {"failure", {"--max-restarts=0"}, "exit:3", nothing, 1},
      {"restart", {"--max-restarts=1"}, "fail-once", starts_clean_again, 0},
      {"SIGTERM", {}, "wait", gets(Who::keeper, SIGTERM), 143},
      {"SIGTERM, workers deaf", {"--stop-grace=0.2"}, "deaf", gets(Who::keeper, SIGTERM), 143},
      {"Ctrl-C twice", {"--stop-grace=600"}, "deaf", ctrl_c_twice, 130},
      {"--max-run", {"--max-run=1"}, "wait", nothing, 143},
      {"worker killed", {"--max-restarts=0"}, "wait", worker_killed, 1},
      {"worker killed between fork and exec", {"--max-restarts=0"}, "wait", worker_killed_before_its_program_runs, 1},
      {"rank 0 leaves", {}, "rank-0-leaves", rank_0_leaves, 0},
      {"both killed at once", {"--rdzv-id=%"}, "wait", both_killed_at_once, -1, {"bare"}},
      {"at a terminal: Ctrl-C twice", {"--stop-grace=600"}, "deaf", ctrl_c_typed_twice, 130, {}, true},
      {"at a terminal: keeper killed", {}, "wait", gets(Who::keeper, SIGKILL), -1, {}, true},
      {"at a terminal: agent killed", {}, "wait", gets(Who::agent, SIGKILL), 137, {}, true},
  };
  for (const Who who : {Who::keeper, Who::agent}) {
    for (const int signal : {SIGKILL, SIGSEGV, SIGABRT, SIGALRM, SIGRTMIN + 1}) all.push_back(signalled(who, signal));
    all.push_back({name_of(who) + " stopped, the other killed", {}, "wait", stopped_while_the_other_dies(who)});
    all.push_back({name_of(who) + " killed while starting", {}, "wait", killed_while_starting(who)});
  }
  return all;
}

}  // namespace ddprun::test
