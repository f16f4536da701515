// `train` over three test hosts loses workers, agents, nodes and links, and ends with the very weights of an
// undisturbed run: all rounds have three ranks, so every sum is the same.
#include <signal.h>

#include <random>

#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/soak.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

namespace {

constexpr int kHosts = 3;
constexpr int kEpochs = 12, kSteps = 16;     // 1,500 digits, 3 ranks, 32 a step
constexpr int kFaults = 2, kEpochsEach = 4;  // the rest is what a run still has to do after the last fault
constexpr auto kTrainLimit = 60s;

// Host 0 has the coordinator. Where its node may be lost, too, all faults are for all hosts.
constexpr int kFirstToLose = 1;

class TrainJob : public HostJob {
 public:
  TrainJob() : HostJob(kHosts, {}) { start_all(); }

  void wait_for_step(int epoch, int step, Mark after) {
    (*this)[0].wait_for_output("^epoch " + std::to_string(epoch) + " step " + std::to_string(step) + " ", kTrainLimit,
                               after);
  }
  std::string snapshot() const { return folder / "snapshot.pt"; }
  void start_all() {
    for (int host = 0; host < kHosts; ++host) start_train(host);
  }
  void start_train(int host) {
    std::vector<std::string> words{"env", "OMP_NUM_THREADS=1", kDdprun};
    for (const std::string& word : elastic_over_hosts("3:3")) words.push_back(word);
    words.insert(words.end(),
                 {"--node-rank=" + std::to_string(host), "--max-restarts=10", train_program(), std::to_string(kEpochs),
                  "1", "--log-every=1", "--device=cpu", "--snapshot=snapshot.pt"});
    start_command(host, words);
  }
};

// Each leads to a new round of all three.
struct Fault {
  std::string what;
  int first_host;
  void (*strike)(TrainJob&, int host);
};

const std::vector<Fault> kAllFaults{
    {"a worker killed", 0, [](TrainJob& job, int host) { REQUIRE(::kill(job.worker(host), SIGKILL) == 0); }},
    {"an agent killed", kFirstToLose,
     [](TrainJob& job, int host) {
       REQUIRE(::kill(job.agent(host), SIGKILL) == 0);
       job[host].wait_exit(kTrainLimit);
       job.start_train(host);
     }},
    {"a node killed", kFirstToLose,
     [](TrainJob& job, int host) {
       job.kill_node(host);
       job.start_train(host);
     }},
    {"a link cut and mended", kFirstToLose,
     [](TrainJob& job, int host) {
       job.hosts.cut(host);
       job[0].wait_for_output("was lost: nothing was heard of it", kTrainLimit, {0, job[0].mark().err});
       job.hosts.mend({host});
     }},
    {"SIGTERM to a node, which ends the job, and the job started again", 0,
     [](TrainJob& job, int host) {
       job[host].kill(SIGTERM);
       for (int each = 0; each < kHosts; ++each) REQUIRE(job[each].wait_exit(kTrainLimit) == exited(143));
       job.start_all();
     }},
};

// Run once, compared with many times.
std::string undisturbed_snapshot() {
  static const TempFolder kept;
  static const bool once = [] {
    TrainJob job;
    for (int host = 0; host < kHosts; ++host) REQUIRE(job[host].wait_exit(kTrainLimit) == exited(0));
    std::filesystem::copy_file(job.snapshot(), kept / "snapshot.pt");
    return true;
  }();
  return once ? kept / "snapshot.pt" : "";
}

void strike_and_finish(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Fault> faults = kAllFaults;  // no kind twice: the same failure twice before any progress ends a job
  std::shuffle(faults.begin(), faults.end(), random);
  TrainJob job;
  Mark after;
  std::string story;
  for (int i = 0; i < kFaults; ++i) {
    const Fault& fault = faults.at(static_cast<std::size_t>(i));
    const int host = fault.first_host + static_cast<int>(random() % static_cast<unsigned>(kHosts - fault.first_host));
    const int epoch = 1 + i * kEpochsEach + static_cast<int>(random() % kEpochsEach);
    const int step = 1 + static_cast<int>(random() % kSteps);
    story += fault.what + " on " + Hosts::name(host) + " at epoch " + std::to_string(epoch) + " step " +
             std::to_string(step) + "; ";
    INFO(story);
    job.wait_for_step(epoch, step, after);
    const pid_t node = job[0].pid();
    after = job[0].mark();
    fault.strike(job, host);
    if (job[0].pid() != node) after = {};  // started again, and says all anew
    if (epoch > 1) job[0].wait_for_output("resuming from", kTrainLimit, after);
  }
  INFO(story);
  for (int host = 0; host < kHosts; ++host) REQUIRE(job[host].wait_exit(kTrainLimit) == exited(0));
  REQUIRE(run({torch_python(), DDPRUN_SOURCE_DIR "/tests/e2e/same_weights.py", undisturbed_snapshot(), job.snapshot()},
              kTrainLimit) == exited(0));
}

}  // namespace

TEST_CASE("train over three hosts with random faults ends with the weights of an undisturbed run", "[hosts]") {
  if (!hosts_or_skip()) return;
  Series series(
      "`train` on 3 hosts, two random faults each (worker, agent, node, link, SIGTERM): exit 0, weights bit-identical",
      5, 100);
  series.run(strike_and_finish);
}
