// `train` under ddprun loses workers in every way, and ends with exactly the weights of an undisturbed run.
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr int kRanks = 4;
constexpr int kEpochs = 12;
constexpr int kEpochsToKillIn = 8;  // the others are left to do when the signal arrives
constexpr int kSteps = 12;          // per epoch: 1,500 digits, 4 ranks, 32 a step
constexpr const char* kRestarts = "--max-restarts=3";

struct Job {
  // `slow_disk`: it is stuck for snapshots as long as the file "stuck" exists.
  explicit Job(const std::string& option = kRestarts, bool slow_disk = false)
      : command(words(option), options(folder.path(), slow_disk)) {}

  // Continues from an earlier job's files.
  explicit Job(const TempFolder& earlier) : command(words(kRestarts), options(earlier.path())) {}

  void wait_for_step(int epoch, int step) {
    command.wait_for_output("^epoch " + std::to_string(epoch) + " step " + std::to_string(step) + " ", 180s);
  }
  pid_t rank(int rank) { return command.wait_for_process("RANK", std::to_string(rank), 10s); }
  std::string snapshot() const { return folder / "snapshot.pt"; }

  TempFolder folder;
  Command command;

 private:
  static std::vector<std::string> words(const std::string& option) {
    return job_of({"--nproc_per_node=" + std::to_string(kRanks), option, train_program(), std::to_string(kEpochs), "1",
                   "--log-every=1", "--device=cpu", "--snapshot=snapshot.pt"});
  }
  static CommandOptions options(const fs::path& folder, bool slow_disk = false) {
    CommandOptions all{.env = {{"OMP_NUM_THREADS", "1"}}, .cwd = folder};
    if (slow_disk) all.env["LD_PRELOAD"] = programs_folder() + "/stuck_fsync.so";
    if (slow_disk) all.env["DDPRUN_TEST_DISK_IS_STUCK"] = folder / "stuck";
    return all;
  }
};

// Run once, compared with many times.
std::string undisturbed_snapshot() {
  static Job job;
  REQUIRE(job.command.wait_exit(180s) == exited(0));
  return job.snapshot();
}

// A second round prints what it resumes from, or starts from scratch if the first one left no snapshot.
bool has_second_round(const std::string& out) {
  const auto first = out.find("epoch 1 step 1 ");
  return out.find("resuming from") != std::string::npos || out.find("epoch 1 step 1 ", first + 1) != std::string::npos;
}

void require_same_weights(const Job& job) {
  REQUIRE(same_weights(undisturbed_snapshot(), job.snapshot()) == exited(0));
}

void require_finished_alike(Job& job) {
  const Ended end = job.command.wait_exit(180s);
  REQUIRE(end == exited(0));
  REQUIRE(has_second_round(end.out));
  REQUIRE(job.command.all_gone(10s));
  require_same_weights(job);
}

void kill_somewhere(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int rank = static_cast<int>(random() % kRanks);
  const int epoch = 1 + static_cast<int>(random() % kEpochsToKillIn);
  const int step = 1 + static_cast<int>(random() % kSteps);
  INFO("SIGKILL for rank " << rank << " at epoch " << epoch << " step " << step);
  Job job;
  job.command.wait_for_output("^epoch ", 180s);
  const pid_t victim = job.rank(rank);
  job.wait_for_step(epoch, step);
  // It is written during the training, and may appear steps later.
  if (epoch > 1) REQUIRE(eventually([&] { return fs::exists(job.snapshot()); }, 10s));
  REQUIRE(::kill(victim, SIGKILL) == 0);
  require_finished_alike(job);
}

// As schedulers do it: SIGTERM to every process of the job, in a random order with random pauses, some twice.
void preempt_all(const Command& command, std::mt19937_64& random) {
  std::vector<pid_t> processes{command.pid()};  // which may have ended
  for (const Process& one : command.processes()) processes.push_back(one.pid);
  processes.insert(processes.end(), processes.begin(),
                   processes.begin() + static_cast<int>(random() % processes.size()));
  std::shuffle(processes.begin(), processes.end(), random);
  for (const pid_t process : processes) {
    ::kill(process, SIGTERM);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
  }
}

void preempt_in_training(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Job job;
  job.wait_for_step(1 + static_cast<int>(random() % kEpochsToKillIn), 1 + static_cast<int>(random() % kSteps));
  preempt_all(job.command, random);
  const Ended left = job.command.wait_exit(180s);
  CAPTURE(left.err);
  REQUIRE(left == exited(75));
  REQUIRE(job.command.all_gone(10s));
  Job again(job.folder);
  const Ended end = again.command.wait_exit(180s);
  REQUIRE(end == exited(0));
  REQUIRE(end.out.find("resuming from") != std::string::npos);
  require_same_weights(job);
}

// From exec to exit: a loop on 75 brings the run to its end.
void preempt_at_any_moment(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::optional<Job> job;
  job.emplace();
  const auto moment = std::chrono::milliseconds(2 + random() % 5000);
  const bool all = random() % 2;
  INFO("after " << moment.count() << " ms to " << (all ? "all" : "ddprun"));
  std::this_thread::sleep_for(moment);
  if (all)
    preempt_all(job->command, random);
  else
    job->command.kill(SIGTERM);
  Ended end = job->command.wait_exit(180s);
  CAPTURE(end.err);
  if (end != exited(0)) {
    REQUIRE(end == exited(75));
    Job again(job->folder);
    end = again.command.wait_exit(180s);
    REQUIRE(end == exited(0));
  }
  require_same_weights(*job);
}

// Left by a save that was cut.
bool has_torn_file(const Job& job) {
  for (const auto& entry : fs::directory_iterator(job.folder.path()))
    if (entry.path().filename().string().find(".writing.") != std::string::npos) return true;
  return false;
}

bool says(const Ended& end, const std::string& words) { return end.err.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("train killed at a random step ends with the weights of an undisturbed run", "[weights]") {
  Series series(
      "`train`, 4 ranks, SIGKILL from outside for a random rank at a random step: exit 0, weights bit-identical", 1,
      20);
  series.run(kill_somewhere);
}

TEST_CASE("train saves whatever processes of the job get SIGTERM, in whatever order, and goes on bit for bit",
          "[weights]") {
  Series series("`train`, 4 ranks, SIGTERM to all processes in random order: exit 75, then weights bit-identical", 1,
                30);
  series.run(preempt_in_training);
}

TEST_CASE("train that gets SIGTERM at any moment is brought to its end by a loop on 75", "[weights]") {
  Series series("`train`, 4 ranks, SIGTERM at a random moment from exec to exit: 75 or 0, then weights bit-identical",
                2, 200);
  series.run(preempt_at_any_moment);
}

TEST_CASE("train under a ddprun that is told to leave saves in the midst of an epoch, and later goes on from there",
          "[weights]") {
  Job job;
  job.wait_for_step(3, 4);
  job.command.kill(SIGTERM);
  const Ended left = job.command.wait_exit(180s);
  CHECK(left == exited(75));  // to be requeued: every rank has reported its snapshot
  CHECK(left.out.find("the next start resumes from there") != std::string::npos);
  Job again(job.folder);
  const Ended end = again.command.wait_exit(180s);
  REQUIRE(end == exited(0));
  CHECK(end.out.find(" % of the next") != std::string::npos);
  CHECK(end.out.find("epoch 2 step") == std::string::npos);
  require_same_weights(job);
}

TEST_CASE("a save that takes longer than the grace is cut, and the next start goes on from the snapshot before it",
          "[weights]") {
  Job job("--stop-grace=3", /*slow_disk=*/true);
  job.wait_for_step(3, 4);
  REQUIRE(eventually([&] { return fs::exists(job.snapshot()); }, 30s));
  job.folder.write("stuck", "");
  job.command.kill(SIGTERM);
  const Ended left = job.command.wait_exit(180s);
  CAPTURE(left.out, left.err);
  CHECK(left == exited(143));
  CHECK(says(left, "; the requested one was not complete when the 3 s of --stop-grace were over."));
  const int steps = std::stoi(job.command.wait_for_output("the last snapshot holds step (\\d+)", 0ms).at(1));
  CHECK(steps % kSteps == 0);
  CHECK(has_torn_file(job));
  fs::remove(job.folder / "stuck");
  Job again(job.folder);
  const Ended end = again.command.wait_exit(180s);
  REQUIRE(end == exited(0));
  CHECK(end.out.find("resuming from snapshot.pt: " + std::to_string(steps / kSteps) + " of 12 epochs done\n") !=
        std::string::npos);
  CHECK_FALSE(has_torn_file(job));
  require_same_weights(job);
}
