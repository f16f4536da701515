// `train` under --in-process: who loses a peer stays the same process, and the weights are an undisturbed run's.
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr auto kTrainLimit = 180s;
constexpr int kRanks = 4;

struct Job {
  explicit Job(int epochs, const std::vector<std::string>& options = {"--in-process", "--prefork",
                                                                      "--memory-snapshots=64M", "--max-restarts=1000"})
      : command(words(epochs, options), {.env = {{"OMP_NUM_THREADS", "1"}}, .cwd = folder.path()}) {}

  // After `mark`; then all ranks are in training.
  void wait_for_epochs(int count, Mark mark = {}) {
    for (int i = 0; i < count; ++i) {
      command.wait_for_output("^epoch [0-9]+ step 3 ", kTrainLimit, mark);
      mark = command.mark();
    }
  }
  // After `killed`, and until the new round trains.
  void wait_for_resume(Mark killed, int epochs) {
    command.wait_for_output("^resuming from memory: ", kTrainLimit, killed);
    wait_for_epochs(epochs, command.mark());
  }
  // Gloo has missed the end of a connection, and a worker that waits for it was started again: one loss in fifty or so.
  bool one_was_stuck(Mark since) { return command.err().find("waiting for rank", since.err) != std::string::npos; }
  std::vector<pid_t> ranks() {
    std::vector<pid_t> pids;
    for (int rank = 0; rank < kRanks; ++rank)
      pids.push_back(command.wait_for_process("LOCAL_RANK", std::to_string(rank), 10s));
    return pids;
  }
  void require_finished_like(const std::string& snapshot) {
    const Ended end = command.wait_exit(kTrainLimit);
    INFO(end.err);
    REQUIRE(end == exited(0));
    REQUIRE(command.all_gone(10s));
    REQUIRE(same_weights(snapshot, folder / "snapshot.pt") == exited(0));
  }

  TempFolder folder;
  Command command;

 private:
  static Words words(int epochs, const Words& options) {
    return joined(
        {{ddprun_program(), "--nproc_per_node=" + std::to_string(kRanks)},
         options,
         {train_program(), std::to_string(epochs), "1", "--log-every=1", "--device=cpu", "--snapshot=snapshot.pt"}});
  }
};

constexpr int kEpochs = 30;

std::string undisturbed_snapshot() {
  static Job job(kEpochs, {});
  static const bool once = job.command.wait_exit(kTrainLimit) == exited(0);
  REQUIRE(once);
  return job.folder / "snapshot.pt";
}

struct Footprint {
  std::size_t descriptors = 0, threads = 0, resident_kib = 0;
};

Footprint footprint_of(pid_t pid) {
  namespace fs = std::filesystem;
  const fs::path process = "/proc/" + std::to_string(pid);
  Footprint out;
  out.descriptors = static_cast<std::size_t>(std::distance(fs::directory_iterator(process / "fd"), {}));
  out.threads = static_cast<std::size_t>(std::distance(fs::directory_iterator(process / "task"), {}));
  std::ifstream status(process / "status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmRSS:")) out.resident_kib = std::stoul(line.substr(6));
  return out;
}

std::string in_words(const Footprint& one) {
  return std::to_string(one.descriptors) + " descriptors, " + std::to_string(one.threads) + " threads, " +
         std::to_string(one.resident_kib / 1024) + " MiB";
}

int stayed_runs = 0, ended_survivors = 0;

// Two ranks, the second one a random time after the first: in the reconfiguration, or, in a soak, while all train
// again.
void kill_two(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const int first = static_cast<int>(random() % kRanks), second = (first + 1 + static_cast<int>(random() % 3)) % kRanks;
  const auto pause = std::chrono::microseconds(random() % (seed % 2 == 0 ? 600'000 : 100'000));
  INFO("ranks " << first << " and " << second << ", " << pause.count() << " us later");
  Job job(kEpochs);
  job.wait_for_epochs(2);
  const std::vector<pid_t> before = job.ranks();
  std::this_thread::sleep_for(std::chrono::microseconds(random() % 50'000));
  const Mark killed = job.command.mark();
  REQUIRE(::kill(before[static_cast<std::size_t>(first)], SIGKILL) == 0);
  const auto until = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(100us);
  REQUIRE(::kill(before[static_cast<std::size_t>(second)], SIGABRT) == 0);  // the same failure twice ends a job
  job.wait_for_resume(killed, 3);
  const std::vector<pid_t> after = job.ranks();
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    if (static_cast<int>(rank) != first && static_cast<int>(rank) != second && after[rank] != before[rank])
      ++ended_survivors;
  ++stayed_runs;
  job.require_finished_like(undisturbed_snapshot());
}

}  // namespace

TEST_CASE(
    "with --in-process only the rank that was killed is another process, and the weights are those of an undisturbed "
    "run",
    "[in-process]") {
  Job job(kEpochs);
  job.wait_for_epochs(1);
  std::vector<pid_t> before = job.ranks();
  int without_stuck = 0;
  for (const std::size_t victim : {1u, 3u, 0u}) {
    const Mark killed = job.command.mark();
    REQUIRE(::kill(before[victim], SIGKILL) == 0);
    job.wait_for_resume(killed, 2);
    const std::vector<pid_t> after = job.ranks();
    const bool stuck = job.one_was_stuck(killed);
    for (std::size_t rank = 0; rank < kRanks && !stuck; ++rank) {
      INFO(rank << " after the end of " << victim);
      CHECK((after[rank] == before[rank]) == (rank != victim));
    }
    without_stuck += !stuck;
    before = after;
  }
  CHECK(without_stuck >= 1);
  job.require_finished_like(undisturbed_snapshot());
}

TEST_CASE("workers are added to a job that trains, and removed, however its workers are started", "[kill]") {
  const std::vector<std::string> all{"--in-process", "--prefork", "--memory-snapshots=64M"};
  for (const Words& options : {Words{}, all}) {
    Job job(2000, joined({{"--rdzv-id=grows", "--max-restarts=0"}, options}));
    job.wait_for_epochs(1);
    for (const auto& [act, ranks] : {std::pair{"add-workers", kRanks + 1}, {"remove-workers", kRanks}}) {
      const Mark asked = job.command.mark();
      REQUIRE(run({ddprun_program(), "ctl", "grows", act}, kTrainLimit) == exited(0));
      job.command.wait_for_output("^resuming from ", kTrainLimit, asked);
      job.wait_for_epochs(2, job.command.mark());
      const std::string last = std::to_string(ranks - 1);
      const pid_t worker = job.command.wait_for_process("LOCAL_RANK", last, 10s);
      const std::string environment = read_file("/proc/" + std::to_string(worker) + "/environ");
      if (options.empty()) CHECK_THAT(environment, Catch::Contains("WORLD_SIZE=" + std::to_string(ranks)));
      const Ended status = run({ddprun_program(), "status", "grows", "--json"}, kTrainLimit);
      CHECK_THAT(status.out, Catch::Contains("\"world_size\": " + std::to_string(ranks)));
    }
    CHECK(job.command.err().find("cannot") == std::string::npos);
    REQUIRE(run({ddprun_program(), "ctl", "grows", "stop"}, kTrainLimit) == exited(0));
    CHECK(job.command.wait_exit(kTrainLimit) == exited(75));
    CHECK(job.command.all_gone(10s));
    CHECK(fs::exists(job.folder / "snapshot.pt"));
  }
}

TEST_CASE("with --in-process two ranks may be killed at any moment, also in the reconfiguration", "[in-process]") {
  Series series("`train --in-process`, 4 ranks, two killed within 0.6 s: weights bit-identical", 1, 100);
  series.run(kill_two, [] {
    return "; " + std::to_string(ended_survivors) + " of " + std::to_string(2 * stayed_runs) +
           " survivors started again";
  });
}

namespace {

// Of a rank of staying_worker, once it has begun the round.
std::string process_of(Command& command, const std::string& rank, const std::string& round) {
  return command.wait_for_output("^rank " + rank + " of round " + round + ": process ([0-9]+)", kTrainLimit)[1];
}

}  // namespace

TEST_CASE("the events tell who stayed, and who was too late for it", "[kill]") {
  const TempFolder folder;
  for (const std::string way : {"stays", "late", "is not to stay"}) {
    CAPTURE(way);
    const std::string log = folder / way;
    std::vector<std::string> words{"--nproc_per_node=2", way == "late" ? "--stop-grace=1" : "--stop-grace=30",
                                   "--event-log-handler=file:" + log};
    if (way != "is not to stay") words.push_back("--in-process");
    words.push_back(programs_folder() + "/staying_worker");
    Command command(job_of(words), {.env = {{"OMP_NUM_THREADS", "1"}}, .cwd = folder.path()});
    const std::string before = process_of(command, "0", "1"), victim = process_of(command, "1", "1");
    if (way == "late") {
      std::ofstream(folder / "slow").close();
      command.wait_for_output("^a long step begins", kTrainLimit);
    }
    REQUIRE(::kill(std::stoi(victim), SIGKILL) == 0);
    const bool stayed = process_of(command, "0", "2") == before;
    CHECK(process_of(command, "1", "2") != victim);
    fs::remove(folder / "slow");
    std::ofstream(folder / "done").close();
    CHECK(command.wait_exit(kTrainLimit) == exited(0));
    fs::remove(folder / "done");
    const bool was_stuck = way == "stays" && command.err().find("waiting for rank") != std::string::npos;
    CHECK((stayed || was_stuck) == (way == "stays"));
    CHECK(has(read_file(log), R"("stayed":"true")") == stayed);
    CHECK(has(read_file(log), R"("late":"true")") == (!stayed && way != "is not to stay"));
  }
}

TEST_CASE("what a worker that stays writes belongs to its newest round: for the report, and for rules", "[kill]") {
  const TempFolder folder;
  folder.write("job.toml", "[[rules]]\nline = 'rank 0 of round 2'\naction = \"stop\"\n");
  for (const bool by_rule : {false, true}) {
    std::vector<std::string> words{ddprun_program(), "--nproc_per_node=2", "--in-process", "--max-restarts=1"};
    if (by_rule) words.push_back("--config=job.toml");
    words.push_back(programs_folder() + "/staying_worker");
    Command command(words, {.env = {{"OMP_NUM_THREADS", "1"}}, .cwd = folder.path()});
    process_of(command, "0", "1");
    REQUIRE(::kill(std::stoi(process_of(command, "1", "1")), SIGKILL) == 0);
    process_of(command, "0", "2");
    if (!by_rule) std::ofstream(folder / "fail").close();
    const Ended end = command.wait_exit(kTrainLimit);
    INFO(end.err);
    CHECK(end.code == (by_rule ? 93 : 1));
    CHECK_THAT(end.err, Catch::Contains(by_rule ? "was given up for its output" : "| these are its last words"));
    fs::remove(folder / "fail");
  }
}

TEST_CASE("a rank that hangs is another process afterwards, and the others stay", "[kill]") {
  Job job(1'000'000);
  job.wait_for_epochs(2);
  const std::vector<pid_t> before = job.ranks();
  const Mark stopped = job.command.mark();
  REQUIRE(::kill(before[1], SIGSTOP) == 0);
  job.wait_for_resume(stopped, 1);
  const std::vector<pid_t> after = job.ranks();
  CHECK(after[1] != before[1]);
  if (!job.one_was_stuck(stopped))
    for (const std::size_t rank : {0u, 2u, 3u}) CHECK(after[rank] == before[rank]);
  job.command.kill(SIGTERM);
  CHECK(job.command.wait_exit(kTrainLimit) == exited(75));
}

TEST_CASE("a process that stays for many rounds grows in nothing", "[kill]") {
  const int rounds = soaking() ? 300 : 6;
  Job job(1'000'000);
  std::mt19937_64 random(first_seed());
  job.wait_for_epochs(1);
  std::vector<pid_t> before = job.ranks();
  Footprint first, last;
  pid_t kept = before[0];
  for (int round = 0; round < rounds; ++round) {
    const std::size_t victim = 1 + random() % 3;
    const Mark killed = job.command.mark();
    // After the same failure again ddprun would wait longer and longer.
    REQUIRE(::kill(before[victim], round % 2 ? SIGKILL : SIGABRT) == 0);
    job.wait_for_resume(killed, 1);
    before = job.ranks();
    REQUIRE((before[0] == kept || job.one_was_stuck(killed)));
    last = footprint_of(before[0]);
    if (round == rounds / 3 || before[0] != kept) first = last;
    kept = before[0];
  }
  CAPTURE(in_words(first), in_words(last));
  CHECK(last.descriptors <= first.descriptors + 2);
  CHECK(last.threads <= first.threads + 2);
  CHECK(last.resident_kib <= first.resident_kib + first.resident_kib / 20);
  job.command.kill(SIGTERM);
  CHECK(job.command.wait_exit(kTrainLimit) == exited(75));
}
