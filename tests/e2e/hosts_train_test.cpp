// `train` over three test hosts loses workers, agents, nodes and links, and ends with exactly the weights of an
// undisturbed run: all rounds have three ranks, so every sum is the same.
#include "tests/e2e/host_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr int kHosts = 3;
constexpr int kEpochs = 12, kSteps = 16;     // 1,500 digits, 3 ranks, 32 a step
constexpr int kFaults = 2, kEpochsEach = 4;  // the others are left to do after the last fault
constexpr auto kTrainLimit = 60s;

class TrainJob : public HostJob {
 public:
  // `more`: of ddprun; `saves`: after how many epochs, and at the end.
  explicit TrainJob(Words more = {}, int saves = 1) : HostJob(kHosts, {}), more_(std::move(more)), saves_(saves) {
    start_all();
  }

  // Printed by any host since the last fault: only rank 0 prints, and it moves if its node is lost.
  void wait_for_words(const std::string& pattern) {
    const std::regex regex(pattern, std::regex::ECMAScript | std::regex::multiline);
    const auto said = [&] {
      for (int host = 0; host < kHosts; ++host)
        if (std::regex_search((*this)[host].out().substr(heard_[host]), regex)) return true;
      return false;
    };
    if (!eventually(said, kTrainLimit)) nobody_said("/" + pattern + "/");
  }
  // Or for a later one: a busy machine may show the words when the job is further on.
  void wait_for_step(int epoch, int step) {
    static const std::regex kStep("(?:^|\n)epoch ([0-9]+) step ([0-9]+) ");
    const auto done = [&] {
      for (int host = 0; host < kHosts; ++host) {
        const std::string out = (*this)[host].out().substr(heard_[host]);
        for (auto one = std::sregex_iterator(out.begin(), out.end(), kStep); one != std::sregex_iterator(); ++one)
          if (std::pair(std::stoi((*one)[1]), std::stoi((*one)[2])) >= std::pair(epoch, step)) return true;
      }
      return false;
    };
    if (!eventually(done, kTrainLimit)) nobody_said("epoch " + std::to_string(epoch) + " step " + std::to_string(step));
  }
  void forget_words() {
    for (int host = 0; host < kHosts; ++host) heard_[host] = (*this)[host].out().size();
  }
  std::string snapshot() const { return folder / "snapshot.pt"; }
  void start_all() {
    for (int host = 0; host < kHosts; ++host) start_train(host);
  }
  void start_train(int host) {
    start_command(host, joined({{"env", "OMP_NUM_THREADS=1", kDdprun},
                                elastic_over_hosts("3:3", "host0:29400,host1:29400,host2:29400"),
                                more_,
                                {"--node-rank=" + std::to_string(host), "--max-restarts=10", train_program(),
                                 std::to_string(kEpochs), std::to_string(saves_), "--log-every=1", "--device=cpu",
                                 "--snapshot=snapshot.pt"}}));
    heard_[host] = 0;
  }

 private:
  [[noreturn]] void nobody_said(const std::string& what) {
    std::string words = "nobody said " + what;
    for (int host = 0; host < kHosts; ++host) words += "\n" + Hosts::name(host) + ":\n" + (*this)[host].err();
    throw std::runtime_error(words);
  }

  const Words more_;
  const int saves_;
  std::map<int, std::size_t> heard_;
};

// A fault; each leads to a new round of all three hosts.
struct Fault {
  std::string what;
  void (*strike)(TrainJob&, int host);
};

const std::vector<Fault> kAllFaults{
    {"a worker killed", [](TrainJob& job, int host) { REQUIRE(::kill(job.worker(host), SIGKILL) == 0); }},
    {"an agent killed",
     [](TrainJob& job, int host) {
       REQUIRE(::kill(job.agent(host), SIGKILL) == 0);
       job[host].wait_exit(kTrainLimit);
       job.start_train(host);
     }},
    {"a node killed",
     [](TrainJob& job, int host) {
       job.kill_node(host);
       job.start_train(host);
     }},
    {"a link cut and mended",
     [](TrainJob& job, int host) {
       job.hosts.cut(host);
       const auto isolated = [&] { return job[host].mark(), job[host].processes("LOCAL_RANK", "0").empty(); };
       REQUIRE(eventually(isolated, kTrainLimit));
       job.hosts.mend({host});
     }},
    {"SIGTERM to a node, which ends the job, and the job started again",
     [](TrainJob& job, int host) {
       job[host].kill(SIGTERM);
       for (int each = 0; each < kHosts; ++each) REQUIRE(job[each].wait_exit(kTrainLimit) == exited(75));
       job.start_all();
     }},
};

// Run once, compared with many times.
std::string undisturbed_snapshot() {
  static const TempFolder kept;
  static const bool once = [] {
    TrainJob job;
    for (int host = 0; host < kHosts; ++host) REQUIRE(job[host].wait_exit(kTrainLimit) == exited(0));
    fs::copy_file(job.snapshot(), kept / "snapshot.pt");
    return true;
  }();
  return once ? kept / "snapshot.pt" : "";
}

void finish_like_undisturbed(TrainJob& job) {
  for (int host = 0; host < kHosts; ++host) REQUIRE(job[host].wait_exit(kTrainLimit) == exited(0));
  REQUIRE(same_weights(undisturbed_snapshot(), job.snapshot()) == exited(0));
}

void strike_and_finish(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<Fault> faults = kAllFaults;  // each kind once: the same failure twice without progress ends a job
  std::shuffle(faults.begin(), faults.end(), random);
  TrainJob job;
  std::string story;
  for (int i = 0; i < kFaults; ++i) {
    const Fault& fault = faults.at(static_cast<std::size_t>(i));
    const int host = static_cast<int>(random() % kHosts);
    const int epoch = 1 + i * kEpochsEach + static_cast<int>(random() % kEpochsEach);
    const int step = 1 + static_cast<int>(random() % kSteps);
    story += fault.what + " on " + Hosts::name(host) + " at epoch " + std::to_string(epoch) + " step " +
             std::to_string(step) + "; ";
    INFO(story);
    job.wait_for_step(epoch, step);
    // It is written during the training, and may appear steps later.
    if (epoch > 1) REQUIRE(eventually([&] { return fs::exists(job.snapshot()); }, kTrainLimit));
    job.forget_words();
    fault.strike(job, host);
    if (epoch > 1) job.wait_for_words("resuming from");
  }
  INFO(story);
  finish_like_undisturbed(job);
}

// Starts ranks by hand in a new network namespace, where lo is down.
Ended by_hand_without_loopback(const TempFolder& folder, const std::string& environment, const std::string& method) {
  const std::string train = train_program() + " 1 1 --device=cpu" + (method.empty() ? "" : " --init-method=" + method);
  const std::string both = "export WORLD_SIZE=2 " + environment + "; RANK=1 " + train + " & RANK=0 " + train + "; wait";
  return run({"unshare", "--net", "sh", "-c", both}, kTrainLimit, {.cwd = folder.path()});
}

}  // namespace

TEST_CASE("where the interface lo is down train says so at once, however it was started", "[hosts]") {
  if (!hosts_or_skip()) return;
  const TempFolder folder;
  const std::string why = " cannot make a process group: the network interface lo is down. ";
  for (const Words& words : {Words{train_program()}, Words{kDdprun, train_program()}}) {
    const Ended alone =
        run(joined({{"unshare", "--net"}, words, {"1", "1", "--device=cpu"}}), kTrainLimit, {.cwd = folder.path()});
    CHECK(alone == exited(1));
    CHECK_THAT(alone.err, Catch::Contains("rank 0 of 1" + why));
  }
  const std::string file = "file://" + std::string(folder / "meet");
  for (const auto& [environment, method] :
       {std::pair<std::string, std::string>{"MASTER_ADDR=127.0.0.1 MASTER_PORT=29500", ""},
        {"", "tcp://127.0.0.1:29500"},
        {"", file}}) {
    const Ended both = by_hand_without_loopback(folder, environment, method);
    INFO(method);
    CHECK_THAT(both.err, Catch::Contains("rank 0 of 2" + why) && Catch::Contains("rank 1 of 2" + why));
  }
}

TEST_CASE("hosts without a shared disk keep a snapshot each, and one that has lost its own goes on with the others'",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(2, {});
  constexpr const char* kDefault = "snapshot-convnet-digits.pt";
  const auto place = [&](int host) { return job.folder / Hosts::name(host); };
  const auto train = [&](const std::string& epochs) {
    for (int host = 0; host < 2; ++host) {
      fs::create_directory(place(host));
      job.start_command(
          host, joined({{"env", "-C", place(host), "OMP_NUM_THREADS=1", kDdprun},
                        static_over_hosts(2),
                        {"--node-rank=" + std::to_string(host), train_program(), epochs, "1", "--device=cpu"}}));
    }
    for (int host = 0; host < 2; ++host) REQUIRE(job[host].wait_exit(kTrainLimit) == exited(0));
    CHECK((read_file(place(0) / kDefault) == read_file(place(1) / kDefault)));  // too long to be printed
    return job[0].out();
  };
  const fs::path undisturbed = job.folder / "undisturbed.pt";
  train("3");
  fs::rename(place(0) / kDefault, undisturbed);
  for (int host = 0; host < 2; ++host) fs::remove_all(place(host));
  for (const int loser : {0, 1}) {
    train("2");
    fs::remove_all(place(loser));
    CHECK(train("3").find("2 of 3 epochs done") != std::string::npos);
    CHECK(same_weights(undisturbed, place(loser) / kDefault) == exited(0));
    for (int host = 0; host < 2; ++host) fs::remove_all(place(host));
  }
}

// No snapshot file is written before the end: without memory the run would begin again.
TEST_CASE("train over three hosts goes on from memory, at most one step back, after the loss of a worker and of a node",
          "[hosts][weights]") {
  if (!hosts_or_skip()) return;
  TrainJob job({"--memory-snapshots=64M"}, kEpochs);
  // Rank 0's, while its host is not lost: how many steps were done before the round that goes on from memory, and which
  // is its first.
  const auto steps_around_last_resume = [&] {
    const std::string out = job[0].out();
    const std::size_t resumed = out.rfind("resuming from memory");
    const std::regex pattern("epoch ([0-9]+) step ([0-9]+) ");
    int last = 0, first = 0;
    for (auto step = std::sregex_iterator(out.begin(), out.end(), pattern); step != std::sregex_iterator(); ++step) {
      const int number = (std::stoi((*step)[1]) - 1) * kSteps + std::stoi((*step)[2]);
      (static_cast<std::size_t>(step->position()) < resumed ? last : first) = number;
      if (first > 0) break;
    }
    return std::pair(last, first);
  };
  const auto goes_on = [&] { return steps_around_last_resume().second > 0; };
  const pid_t victim = job.worker(1);
  job.wait_for_step(3, 5);
  job.forget_words();
  REQUIRE(::kill(victim, SIGKILL) == 0);
  job.wait_for_words("^resuming from memory: ");
  job.wait_for_step(5, 3);
  REQUIRE(eventually(goes_on, kTrainLimit));
  const auto [before, after] = steps_around_last_resume();
  CHECK((after == before || after == before + 1));
  for (const int host : {2, 0}) {  // the second one has the coordinator, and rank 0
    job.forget_words();
    job.kill_node(host);
    job.start_train(host);
    job.wait_for_words("^resuming from memory: ");
    if (host == 0) break;
    job.wait_for_step(7, 1);
    REQUIRE(eventually(goes_on, kTrainLimit));
    const auto [last, first] = steps_around_last_resume();
    CHECK((first == last || first == last + 1));
  }
  finish_like_undisturbed(job);
}

// No other snapshot is written before the end.
TEST_CASE(
    "a user has a snapshot written while three hosts train, and the job goes on from it after the loss of a worker",
    "[hosts][weights]") {
  if (!hosts_or_skip()) return;
  TrainJob job({}, kEpochs);
  job.wait_for_step(2, 5);
  for (const int host : {1, 2}) {
    const Ended asked = run(job.hosts.on(host, {kDdprun, "ctl", "snapshot"}), kTrainLimit);
    INFO(asked.err);
    REQUIRE(asked == exited(0));
    std::smatch saved;
    const std::regex answer("[0-9:]{8} snapshot: step ([0-9]+) is saved, and training goes on\\.\n");
    REQUIRE(std::regex_match(asked.out, saved, answer));
    CHECK(fs::exists(job.snapshot()));
    const int step = std::stoi(saved[1]);
    job.wait_for_step(1 + step / kSteps, 1 + step % kSteps);
    if (host == 1) continue;
    job.forget_words();
    REQUIRE(::kill(job.worker(0), SIGKILL) == 0);
    // After an epoch's last step it is not counted yet.
    std::string done = std::to_string(step / kSteps) + " of 12 epochs";
    if (step % kSteps == 0) done += "|" + std::to_string(step / kSteps - 1) + " of 12 epochs done, and 100 %";
    job.wait_for_words("^resuming from snapshot.pt: .*(" + done + ")");
    job.wait_for_step(1 + step / kSteps, 1 + step % kSteps);
  }
  finish_like_undisturbed(job);
}

TEST_CASE("with --in-process the loss of a worker and of the coordinator's node leaves the others' workers as they are",
          "[hosts][weights]") {
  if (!hosts_or_skip()) return;
  TrainJob job({"--in-process", "--prefork", "--memory-snapshots=64M"}, kEpochs);
  job.wait_for_step(3, 5);
  std::map<int, pid_t> before;
  const auto workers = [&] { return std::map<int, pid_t>{{0, job.worker(0)}, {1, job.worker(1)}, {2, job.worker(2)}}; };
  before = workers();
  job.forget_words();
  REQUIRE(::kill(before[1], SIGKILL) == 0);
  job.wait_for_words("^resuming from memory: ");
  job.wait_for_step(5, 3);
  std::map<int, pid_t> after = workers();
  CHECK(after[1] != before[1]);
  // Gloo may miss the end of a connection, seldom: that worker is started again.
  const auto one_was_stuck = [&] {
    for (int host = 0; host < kHosts; ++host)
      if (job[host].err().find("waiting for rank") != std::string::npos) return true;
    return false;
  };
  CHECK(((after[0] == before[0] && after[2] == before[2]) || one_was_stuck()));
  job.forget_words();
  REQUIRE(::kill(after[1], SIGKILL) == 0);
  job.kill_node(0);
  job.start_train(0);
  job.wait_for_words("^resuming from memory: ");
  job.wait_for_step(8, 1);
  CHECK((job.worker(2) == after[2] || one_was_stuck()));
  finish_like_undisturbed(job);
}

TEST_CASE("a spare with a loaded template takes a lost node's place in a static job, from the others' memory",
          "[hosts]") {
  if (!hosts_or_skip()) return;
  HostJob job(3, {});
  const auto start = [&](int host) {
    job.start_command(host, {"env", "OMP_NUM_THREADS=1", kDdprun, "--nnodes=2", "--spares=1", "--master-addr=host0",
                             "--rdzv-id=spares", "--node-rank=" + std::to_string(host), "--prefork",
                             host == 2 ? "--memory-snapshots=64K" : "--memory-snapshots=64M", train_program(), "100000",
                             "100000", "--log-every=1", "--device=cpu", "--snapshot=snapshot.pt"});
  };
  const auto is_a_spare = [&](int host) { return job[host].err().find("this one is a spare") != std::string::npos; };
  for (const int host : {0, 1}) start(host);
  job[0].wait_for_output("^epoch 1 step 1 ", kTrainLimit);
  start(2);
  REQUIRE(eventually([&] { return is_a_spare(2); }, kTrainLimit));
  job[0].wait_for_output("^epoch 2 step 1 ", kTrainLimit);
  job.kill_node(1);
  job[0].wait_for_output("^resuming from memory: ", kTrainLimit);
  job[0].wait_for_output("^epoch [0-9]+ step 5 ", kTrainLimit, job[0].mark());
  CHECK(job[2].err().find("cannot keep the snapshot in memory: it has ") !=
        std::string::npos);  // and the round goes on
  start(1);                  // too late
  CHECK(eventually([&] { return is_a_spare(1); }, kTrainLimit));
  for (int host = 0; host < 3; ++host) job[host].kill(SIGTERM);  // to one alone: a spare would take its place
  for (int host = 0; host < 3; ++host) CHECK(job[host].wait_exit(kTrainLimit) == exited(75));
  CHECK(job[0].out().find("\nsaved at step ") != std::string::npos);
}

TEST_CASE("train over three hosts with random faults ends with the weights of an undisturbed run", "[hosts][weights]") {
  if (!hosts_or_skip()) return;
  Series series(
      "`train` on 3 hosts, two random faults each (worker, agent, node, link, SIGTERM): exit 0, weights bit-identical",
      1, 100);
  series.run(strike_and_finish);
}
