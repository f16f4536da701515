// `train` hangs in every phase, is found and started again, and ends with exactly the weights of an undisturbed run.
#include <sys/mman.h>

#include "rendezvous/base/fd.h"
#include "rendezvous/channel/worker_channel.h"
#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr auto kTrainLimit = 180s;
constexpr int kEpochs = 12, kEpochsToStopIn = 8, kStepsOfEpoch = 15;  // 1,500 digits, 3 ranks, 32 a step: 16

using Environment = std::map<std::string, std::optional<std::string>>;

struct TrainOptions {
  int nodes = 1;
  Environment env = {};
  std::string ddprun = "--hang-timeout=save=3s,evaluate=3s", train = "--save-steps=0", snapshot = "snapshot.pt";
};

class TrainJob : public ThreeRanks {
 public:
  explicit TrainJob(const TrainOptions& options = {})
      : ThreeRanks(options.nodes, {options.ddprun},
                   {train_program(), std::to_string(kEpochs), "1", "--log-every=1", "--device=cpu", options.train,
                    "--snapshot=" + options.snapshot},
                   environment(options.env)),
        snapshot_(options.snapshot) {}
  void wait_for_step(int epoch, int step) {
    agents.front()->wait_for_output("^epoch " + std::to_string(epoch) + " step " + std::to_string(step) + " ",
                                    kTrainLimit);
  }
  // Once it has been found, all goes on.
  void wait_until_found() {
    REQUIRE(eventually([&] { return prints(" hangs: it "); }, kTrainLimit));
  }
  std::string snapshot() const { return stuck.folder() / snapshot_; }

 private:
  static Environment environment(Environment more) {
    more["OMP_NUM_THREADS"] = "1";
    return more;
  }
  const std::string snapshot_;
};

// Run once, compared with many times.
std::string snapshot_of_undisturbed() {
  static TrainJob job;
  job.all_end_well(kTrainLimit);
  return job.snapshot();
}

// One hang, one restart, the same weights.
void require_recovered(TrainJob& job, int rank) {
  for (auto& agent : job.agents) REQUIRE(agent->wait_exit(kTrainLimit) == exited(0));
  const std::string err = job.agents.front()->err();
  REQUIRE_THAT(err, Matches("[\\s\\S]*rank " + std::to_string(rank) +
                            "( \\([^)]*\\))? hung, [^\n]* into round 1; restart 1 of 3\\.[\\s\\S]*"));
  REQUIRE(count(err, "; restart ") == 1);
  REQUIRE(count(job.all_err(), " hangs: it ") == 1);
  const Ended compared = same_weights(snapshot_of_undisturbed(), job.snapshot());
  REQUIRE(compared == exited(0));
}

std::chrono::duration<double> stop_a_rank(TrainJob& job, int rank, int epoch, int step) {
  const pid_t victim = job.worker(rank);
  job.wait_for_step(epoch, step);
  REQUIRE(::kill(victim, SIGSTOP) == 0);
  const auto begin = std::chrono::steady_clock::now();
  job.wait_until_found();
  return std::chrono::steady_clock::now() - begin;
}

void stop_often(int nodes, int runs) {
  FindingTimes times;
  Series series("hang: `train`, 3 ranks on " + std::to_string(nodes) + (nodes == 1 ? " node" : " nodes") +
                    ", SIGSTOP for a random rank at a random step: one restart, exit 0, weights bit-identical",
                runs, 20);
  series.run(
      [&](std::uint64_t seed) {
        std::mt19937_64 random(seed);
        const int rank = static_cast<int>(random() % ThreeRanks::kRanks);
        const int epoch = 2 + static_cast<int>(random() % (kEpochsToStopIn - 1));
        const int step = 1 + static_cast<int>(random() % kStepsOfEpoch);
        CAPTURE(nodes, rank, epoch, step);
        TrainJob job({.nodes = nodes});
        times.add(stop_a_rank(job, rank, epoch, step));
        require_recovered(job, rank);
      },
      [&] { return times.in_words(); });
}

// What a worker reports, read in its page.
class SeenPage {
 public:
  explicit SeenPage(pid_t worker) {
    const auto environment = environment_of(worker);
    const std::string path = "/proc/" + std::to_string(worker) + "/fd/" + environment.at(DDPRUN_CHANNEL_VARIABLE);
    const ddprun::Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    void* const at = mmap(nullptr, DDPRUN_CHANNEL_BYTES, PROT_READ, MAP_SHARED, fd.get(), 0);
    REQUIRE(at != MAP_FAILED);
    page_ = static_cast<const ddprun_channel_page*>(at);
  }
  ~SeenPage() { munmap(const_cast<ddprun_channel_page*>(page_), DDPRUN_CHANNEL_BYTES); }
  SeenPage(const SeenPage&) = delete;
  SeenPage& operator=(const SeenPage&) = delete;
  // In the phase, and not waiting for others.
  bool is_in(ddprun_phase phase) const {
    return __atomic_load_n(&page_->phase.first, __ATOMIC_RELAXED) == static_cast<std::uint64_t>(phase) &&
           (__atomic_load_n(&page_->beat.first, __ATOMIC_RELAXED) & 0xff) == DDPRUN_BEAT_NONE;
  }

 private:
  const ddprun_channel_page* page_;
};

// The phase takes milliseconds: tried until it was met. False: the worker has ended before.
bool stop_in_phase(pid_t worker, ddprun_phase phase) {
  const SeenPage page(worker);
  for (const auto end = std::chrono::steady_clock::now() + kTrainLimit;;) {
    while (!page.is_in(phase) && std::chrono::steady_clock::now() < end) continue;
    if (::kill(worker, SIGSTOP) != 0) return false;
    std::this_thread::sleep_for(10ms);  // a signal that a busy thread has not taken yet
    if (page.is_in(phase)) return true;
    ::kill(worker, SIGCONT);
    REQUIRE(std::chrono::steady_clock::now() < end);
  }
}

Environment with_stuck_fsync(const std::string& file) {
  return {{"LD_PRELOAD", programs_folder() + "/stuck_fsync.so"}, {"DDPRUN_TEST_DISK_IS_STUCK", file}};
}

}  // namespace

TEST_CASE("train with a rank that is stopped at a random step ends with the weights of an undisturbed run",
          "[recovery]") {
  stop_often(1, 1);
}

TEST_CASE("train on three nodes with a rank that is stopped ends with the weights of an undisturbed run",
          "[recovery]") {
  stop_often(3, 0);
  TrainJob job({.nodes = 3});
  stop_a_rank(job, 0, 4, 5);  // on the coordinator's node
  require_recovered(job, 0);
}

TEST_CASE("train with a rank that is stopped while it evaluates ends with the weights of an undisturbed run",
          "[recovery]") {
  constexpr int kTriesMax = 4;  // on a busy machine all of a run's evaluations may be missed
  for (int tries = 1;; ++tries) {
    TrainJob job;
    const pid_t victim = job.worker(1);
    job.wait_for_step(2, 1);
    if (!stop_in_phase(victim, DDPRUN_PHASE_EVALUATING)) {
      REQUIRE(tries < kTriesMax);
      continue;
    }
    job.wait_until_found();
    CHECK_THAT(job.all_err(),
               Matches("[\\s\\S]*rank 1 hangs: it has been stopped for \\d+\\.\\d s, in evaluate[\\s\\S]*"));
    return require_recovered(job, 1);
  }
}

TEST_CASE("train whose save stands still is started again, and ends with the weights of an undisturbed run",
          "[recovery]") {
  const TempFolder folder;
  TrainJob job({.env = with_stuck_fsync(folder / "stuck")});
  job.wait_for_step(3, 4);
  folder.write("stuck", "");
  job.wait_until_found();
  fs::remove(folder / "stuck");
  CHECK_THAT(job.all_err(), Matches("[\\s\\S]*rank 0 hangs: it has been saving for ([3-9]|\\d\\d)\\.\\d s[\\s\\S]*"));
  require_recovered(job, 0);
}

TEST_CASE("train whose snapshots' file system does not answer is started again once it does", "[recovery]") {
  TrainJob job({.snapshot = "disk/snapshot.pt"});
  if (skipped_if(!job.stuck.mounted(), "no file system can be mounted here")) return;
  job.wait_for_step(3, 4);
  REQUIRE(eventually([&] { return fs::exists(job.snapshot()); }, kTrainLimit));
  Command server({programs_folder() + "/stuck_file_system", job.stuck.folder() / "disk"});
  job.wait_until_found();
  server.kill(SIGTERM);
  CHECK_THAT(job.all_err(), Matches("[\\s\\S]*rank 0 hangs: it has been saving for ([3-9]|\\d\\d)\\.\\d s[\\s\\S]*"));
  require_recovered(job, 0);
}

TEST_CASE("train whose save takes longer than its steps is left alone", "[hang]") {
  const TempFolder folder;
  TrainJob job({.env = with_stuck_fsync(folder / "stuck"), .ddprun = "--hang-timeout=auto", .train = "--save-steps=4"});
  job.wait_for_step(3, 4);
  folder.write("stuck", "");
  CHECK_FALSE(eventually([&] { return job.prints(" hangs: "); }, 4s));
  fs::remove(folder / "stuck");
  job.all_end_well(kTrainLimit);
  CHECK_FALSE(job.prints(" hangs: "));
  CHECK_FALSE(job.prints("restart"));
}
