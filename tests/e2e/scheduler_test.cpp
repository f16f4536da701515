// ddprun started without options by a scheduler: the environments of srun's steps and of an Indexed Job's pods, made up
// on one machine, and a control group's CPU quota.
#include <sched.h>

#include "tests/e2e/control_groups.h"
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

using Variables = std::map<std::string, std::optional<std::string>>;

const std::string kWorker = "echo \"up $RANK/$WORLD_SIZE of $TORCHELASTIC_RUN_ID\"";

// A job whose nodes meet at a port that is free: see slurm_port().
int job_with_free_port() {
  for (;;)
    if (const int port = free_port(); port >= 20'000) return port - 20'000;
}

// Of a step on the node "localhost" and another one.
Variables step_of_two(int job, int node) {
  return {{"SLURM_JOB_ID", std::to_string(job)},
          {"SLURM_JOB_NODELIST", "localhost,other"},
          {"SLURM_NNODES", "2"},
          {"SLURM_STEP_ID", "0"},
          {"SLURM_STEP_NUM_NODES", "2"},
          {"SLURM_STEP_NODELIST", "localhost,other"},
          {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"},
          {"SLURM_NODEID", std::to_string(node)},
          {"SLURMD_NODENAME", node == 0 ? "localhost" : "other"}};
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

int cpus_of_affinity() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

}  // namespace

TEST_CASE("srun ddprun needs no options: the nodes of a step become one job", "[scheduler][fast]") {
  const int job = job_with_free_port();
  Command second(shell_job({}, kWorker), {.env = step_of_two(job, 1)});
  Command first(shell_job({}, kWorker), {.env = with(step_of_two(job, 0), {{"SLURM_GPUS_ON_NODE", "2"}})});
  const std::string of_job = " of " + std::to_string(job) + "\n";
  const Ended one = first.wait_exit(kLimit), two = second.wait_exit(kLimit);
  CHECK(one == exited(0));
  CHECK(two == exited(0));
  for (const char* place : {"up 0/3", "up 1/3"}) CHECK(has(one.out, place + of_job));
  CHECK(has(two.out, "up 2/3" + of_job));
}

TEST_CASE("a step whose first node has a name without an address meets at Slurm's NodeAddr", "[scheduler]") {
  const TempFolder folder;
  const std::string calls = folder / "calls";
  folder.write("scontrol", "#!/bin/sh\necho \"$*\" >>" + calls + "\necho '   NodeAddr=127.0.0.1 NodeHostName=x'\n",
               true);
  const Variables by_slurm{{"PATH", folder.path().string() + ":" + std::getenv("PATH")},
                           {"SLURM_STEP_NODELIST", "no-such-host.invalid,other"},
                           {"SLURMD_NODENAME", std::nullopt}};
  const int job = job_with_free_port();
  Command second(shell_job({}, kWorker), {.env = with(step_of_two(job, 1), by_slurm)});
  Command first(shell_job({}, kWorker), {.env = with(step_of_two(job, 0), by_slurm)});
  const Ended one = first.wait_exit(kLimit), two = second.wait_exit(kLimit);
  CHECK(one == exited(0));
  CHECK(two == exited(0));
  CHECK(has(one.out, "up 0/2 of "));
  CHECK(has(two.out, "up 1/2 of "));
  CHECK(read_file(calls) == "show node no-such-host.invalid\nshow node no-such-host.invalid\n");
}

TEST_CASE("where nobody knows the first node of a step, that is said before the nodes go on looking", "[scheduler]") {
  const TempFolder folder;
  folder.write("scontrol", "#!/bin/sh\nexit 1\n", true);
  Command job(shell_job({}, kWorker), {.env = with(step_of_two(job_with_free_port(), 1),
                                                   {{"PATH", folder.path().string() + ":" + std::getenv("PATH")},
                                                    {"SLURM_STEP_NODELIST", "no-such-host.invalid,other"}})});
  job.wait_for_output("its name has no address here: .*by --master-addr HOST \\(PET_MASTER_ADDR\\)", kLimit);
  CHECK_FALSE(job.ended());
}

TEST_CASE("of a step with two tasks per node the surplus is refused at once, and the job's nodes go on",
          "[scheduler]") {
  const TempFolder folder;
  const std::vector<std::string> job =
      shell_job({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:" + std::to_string(free_port())},
                "echo up; until [ -e go ]; do sleep 0.02; done");
  std::vector<std::unique_ptr<Command>> tasks;
  const auto task = [&](int number) -> Command& {
    const Variables variables{{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}, {"SLURM_PROCID", std::to_string(number)}};
    tasks.push_back(std::make_unique<Command>(
        job, CommandOptions{.env = with(step_of_two(7, number / 2), variables), .cwd = folder.path()}));
    return *tasks.back();
  };
  for (Command* one : {&task(0), &task(1)}) one->wait_for_output("up", kLimit);
  for (const int number : {2, 3}) {
    const Ended ended = task(number).wait_exit(kLimit);
    CHECK(ended == exited(69));
    CHECK(has(ended.err, "of Slurm's step 7.0 the job has its 2 nodes, "));
    CHECK(has(ended.err, "srun --ntasks-per-node=1"));
  }
  folder.write("go", "");
  for (const std::size_t one : {0u, 1u}) CHECK(tasks[one]->wait_exit(kLimit) == exited(0));
  CHECK(count(tasks[0]->err(), "for one per machine, srun --ntasks-per-node=1") == 1);
  CHECK(count(tasks[1]->err(), "for one per machine, srun --ntasks-per-node=1") == 0);
}

TEST_CASE("the first event of a requeued job says how often it was requeued, and no other one", "[scheduler]") {
  const TempFolder folder;
  const auto events = [&](const Variables& variables) {
    const std::string log = folder / ("events" + std::to_string(variables.size()));
    CHECK(run(shell_job({"--event-log-handler=file:" + log}, "true"), kLimit, {.env = variables}) == exited(0));
    return read_file(log);
  };
  const std::string requeued = events({{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "2"}});
  const std::size_t first = requeued.find("\"requeues\": 2"), field = requeued.find("\"requeues\":2");
  CHECK(std::min(first, field) < requeued.find('\n'));
  CHECK(requeued.rfind("\"requeues\"") < requeued.find('\n'));
  CHECK(has(events({{"SLURM_JOB_ID", "7"}}), "\"requeues\":0"));
  CHECK_FALSE(has(events({}), "requeues"));
}

TEST_CASE("the pods of an Indexed Job need the number of nodes only", "[scheduler]") {
  if (skipped_if(getuid() != 0, "it needs to be root")) return;
  const TempFolder folder;
  const std::string hosts =
      folder.write("hosts", "127.0.0.1 localhost\n127.0.0.1 job-0.svc.test job-0\n127.0.0.1 job-1.svc.test job-1\n");
  const std::string port = std::to_string(free_port());
  const auto pod = [&](const std::string& index) {
    std::vector<std::string> words{
        "unshare", "--uts", "--mount",
        "sh",      "-c",    "hostname job-$JOB_COMPLETION_INDEX && mount --bind \"$0\" /etc/hosts && exec \"$@\"",
        hosts};
    // Both pods are one host here, which may use its port 29500.
    const std::vector<std::string> job = shell_job({"--master-port=" + port}, kWorker);
    return std::make_unique<Command>(joined({words, job}),
                                     CommandOptions{.env = {{"JOB_COMPLETION_INDEX", index}, {"PET_NNODES", "2"}}});
  };
  const auto second = pod("1"), first = pod("0");
  const Ended one = first->wait_exit(kLimit), two = second->wait_exit(kLimit);
  if (skipped_if(has(two.err, "unshare: "), "no namespace may be made here")) return;
  CHECK(one == exited(0));
  CHECK(has(one.out, "up 0/2 "));
  CHECK(has(two.out, "up 1/2 "));
}

TEST_CASE("workers and threads by CPUs keep within a control group's quota", "[scheduler]") {
  const QuotaGroup group(150'000);
  if (skipped_if(!group.usable() || cpus_of_affinity() < 2,
                 "no CPU control group can be made here, or there is only one CPU"))
    return;
  const auto inside = [&](std::vector<std::string> words) {
    words.insert(words.begin(),
                 {"sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", group.processes(), kDdprun, "--dry-run"});
    return run(words, kLimit);
  };
  CHECK(count(inside({"--nproc-per-node=cpu", "true"}).out, "(local rank ") == 1);
  CHECK(has(inside({"--omp-threads=auto", "true"}).out, "OMP_NUM_THREADS=1"));
  CHECK(count(run(job_of({"--dry-run", "--nproc-per-node=cpu", "true"}), kLimit).out, "(local rank ") ==
        cpus_of_affinity());
}
