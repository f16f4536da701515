// Snapshots by real processes, through whatever can happen to them: ddp_worker has the scenarios.
#include <sys/mount.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include "tests/support/soak.h"
#include "tests/support/test.h"
#include "tests/trainer/ranks.h"
#include "tests/trainer/snapshot_compare.h"
#include "trainer/ddp/snapshot/snapshot_folder.h"
#include "trainer/ddp/snapshot/snapshot_format.h"

namespace {

Words worker(const Words& words) { return with({programs_folder() + "/ddp_worker"}, words); }

// Two machines as far as the ranks can tell: each has a node number of its own.
const Environment kMachineEach{{"GROUP_RANK", "{rank}"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

// What "PATTERN NUMBER" said last; `nothing` where it was not said.
std::int64_t last_number(const std::string& text, const std::string& word, std::int64_t nothing = 0) {
  const std::regex pattern("^" + word + " ([0-9]+)$", std::regex::ECMAScript | std::regex::multiline);
  std::int64_t last = nothing;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), pattern); it != std::sregex_iterator(); ++it)
    last = std::stol((*it)[1]);
  return last;
}

// A file system of so many bytes, mounted at a folder; root's alone to make.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& folder, const std::string& size) : folder_(folder) {
    fs::create_directory(folder);
    mounted_ = mount("tmpfs", folder.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
    if (!mounted_) WARN("skipped: only root can mount a small disk");
  }
  ~SmallDisk() { umount2(folder_.c_str(), MNT_DETACH); }
  bool mounted() const { return mounted_; }
  void make_read_only() { REQUIRE(mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") == 0); }

 private:
  std::string folder_;
  bool mounted_ = false;
};

// Of this process: so much more than it has may be mapped.
class AddressSpaceLimit {
 public:
  explicit AddressSpaceLimit(std::size_t spare) {
    getrlimit(RLIMIT_AS, &before_);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlimit limit{pages * static_cast<std::size_t>(getpagesize()) + spare, before_.rlim_max};
    setrlimit(RLIMIT_AS, &limit);
  }
  ~AddressSpaceLimit() { setrlimit(RLIMIT_AS, &before_); }

 private:
  rlimit before_{};
};

}  // namespace

// The kill comes at a random step, while the snapshots of all steps before it are being written.
TEST_CASE("a run killed at random steps and resumed ends with the bits of an undisturbed one", "[snapshots]") {
  constexpr int kSteps = 100;
  struct Kind {
    int ranks;
    std::string optimizer;
  };
  const std::vector<Kind> kinds{{2, "sgd"}, {2, "adam"}, {4, "adamw"}, {4, "sgd"}};
  std::map<std::string, Snapshot> undisturbed;
  const TempFolder folder;
  Series("snapshots: killed at a random step, then the bits of an undisturbed run", 2, 30).run([&](std::uint64_t seed) {
    const auto& [ranks, optimizer] = kinds[seed % kinds.size()];
    INFO(ranks << " ranks, " << optimizer);
    const std::string name = optimizer + std::to_string(ranks);
    if (!undisturbed.count(name)) {
      Ranks(ranks, worker({"train", folder / name, optimizer, std::to_string(kSteps)})).wait_all_good();
      undisturbed[name] = load_snapshot(folder / name);
      REQUIRE(undisturbed[name].rng.size() == static_cast<std::size_t>(ranks));
    }
    const std::string path = folder / ("killed" + std::to_string(seed));
    const Words words = worker({"train", path, optimizer, std::to_string(kSteps), "every-step"});
    const int stop = 5 + static_cast<int>(std::mt19937_64(seed)() % (kSteps / 5));  // it has a while to go yet
    {
      Ranks killed(ranks, words);
      killed[0].wait_for_output("^step " + std::to_string(stop) + " ", 60s);
      for (int rank = 0; rank < ranks; ++rank) killed[rank].kill(SIGKILL);
      for (int rank = 0; rank < ranks; ++rank) killed[rank].wait_exit(10s);
    }
    const std::string rest = Ranks(ranks, words).wait_all_good().out;
    const Snapshot resumed = load_snapshot(path);
    REQUIRE(differences(undisturbed[name], resumed) == "");
    REQUIRE(resumed.generation == 2);
    // From a snapshot just before the kill, not from the beginning.
    REQUIRE(rest.find("step " + std::to_string(stop - 3) + " ") == std::string::npos);
  });
}

// The first snapshot file is the last one: without memory a run would begin again.
TEST_CASE("a rank killed at any moment goes on from memory, at most one step back, with the bits of an undisturbed run",
          "[snapshots]") {
  constexpr int kSteps = 300, kRanks = 3;  // it has a while to go yet when one is killed
  const TempFolder folder;
  Ranks(kRanks, worker({"train", folder / "undisturbed", "adam", std::to_string(kSteps)})).wait_all_good();
  const Snapshot undisturbed = load_snapshot(folder / "undisturbed");
  Series("snapshots in memory: a rank killed at a random moment, then the bits of an undisturbed run", 2, 100)
      .run([&](std::uint64_t seed) {
        std::mt19937_64 random(seed);
        const std::string path = folder / ("killed" + std::to_string(seed));
        Command job(under_ddprun({"--nproc-per-node=3", "--memory-snapshots=1M"},
                                 worker({"train", path, "adam", std::to_string(kSteps), "in-memory"})),
                    kOneThread);
        const auto stop = static_cast<std::int64_t>(5 + random() % 20);
        const pid_t victim = job.wait_for_process("RANK", std::to_string(random() % kRanks), 10s);
        job.wait_for_output("^step " + std::to_string(stop) + " ", 60s);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 2'000));
        kill(victim, SIGKILL);
        const Ended end = job.wait_exit(60s);
        INFO(end.out << end.err);
        REQUIRE(end == exited(0));
        const std::int64_t resumed = last_number(end.out, "from memory at step", -1);
        REQUIRE(resumed >= stop - 1);  // another rank may have told of a step that the victim has not done
        REQUIRE(differences(undisturbed, load_snapshot(path)) == "");
      });
}

TEST_CASE("a rank killed while a thread copies its state goes on from a whole one, at most one step back",
          "[snapshots]") {
  const TempFolder folder;
  constexpr int kKills = 6, kStepsBetween = 200;
  Command job(under_ddprun({"--memory-snapshots=64M", "--max-restarts=" + std::to_string(kKills)},
                           worker({"keep", folder / "run.pt", std::to_string(kKills * kStepsBetween)})),
              kOneThread);
  std::mt19937_64 random(first_seed());
  Mark mark = job.mark();
  for (int i = 0; i < kKills; ++i) {
    const pid_t victim = job.wait_for_process("RANK", "0", 10s);
    const std::string told = job.wait_for_output("^step ([0-9]+)", 60s, mark)[1];
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 10'000));
    mark = job.mark();
    REQUIRE(kill(victim, i % 2 ? SIGKILL : SIGABRT) == 0);
    CHECK(std::stol(job.wait_for_output("^resumed ([0-9]+)", 60s, mark)[1]) >= std::stol(told) - 1);
    mark = job.mark();
  }
  const Ended end = job.wait_exit(60s);
  INFO(end.out << end.err);
  CHECK(end == exited(0));
}

// The files are altered so that only their content tells.
TEST_CASE("a rank that goes on from memory reads no snapshot file", "[snapshots]") {
  const TempFolder folder;
  const std::string path = folder / "run.pt";
  Command job(under_ddprun({"--nproc-per-node=2", "--memory-snapshots=64M"},
                           train_with({"60", "60", "--save-steps=100", "--log-every=1", "--snapshot", path})),
              kOneThread);
  const pid_t first = job.wait_for_process("RANK", "0", 10s), second = job.wait_for_process("RANK", "1", 10s);
  const auto threads = [&] {
    return std::distance(fs::directory_iterator("/proc/" + std::to_string(first) + "/task"), {});
  };
  REQUIRE(eventually([&] { return !step_lines(job.out()).empty(); }, 60s));
  const auto without_writer = threads();
  REQUIRE(eventually([&] { return fs::exists(path); }, 60s));
  // Until the thread that writes has ended, memory does not know the file.
  REQUIRE(eventually([&] { return threads() <= without_writer; }, 60s));
  const auto lines = static_cast<int>(step_lines(job.out()).size());
  REQUIRE(eventually([&] { return static_cast<int>(step_lines(job.out()).size()) > lines + 2; }, 60s));
  for (const pid_t worker : {first, second}) kill(worker, SIGSTOP);
  std::string content = read_file(path);
  const auto changed = fs::last_write_time(path);
  content.replace(content.size() / 2, 8, "altered!");
  std::fstream(path, std::ios::in | std::ios::out).write(content.data(), static_cast<std::streamsize>(content.size()));
  fs::last_write_time(path, changed);
  kill(second, SIGKILL);
  job.wait_for_output("^resuming from memory: ", 60s);
  const Ended end = job.wait_exit(60s);
  CHECK(end == exited(0));
  CHECK_FALSE(fs::exists(path + ".damaged"));
  CHECK(end.err.find("is skipped") == std::string::npos);
}

TEST_CASE("a state whose loss is not finite is not kept in memory: the run ends at that step", "[snapshots]") {
  const TempFolder folder;
  const Ended end = run(under_ddprun({"--nproc-per-node=2", "--memory-snapshots=64M", "--max-restarts=0"},
                                     train_with({"1", "1", "--lr=1e30", "--snapshot", folder / "run.pt"})),
                        60s, kOneThread);
  INFO(end.err);
  CHECK(end == exited(1));
  CHECK(std::regex_search(end.err, std::regex("training ends at step [1-3]: a loss is ")));
}

TEST_CASE("what is too large for the memory is told once, and the files go on", "[snapshots]") {
  const TempFolder folder;
  const Ended end =
      run(under_ddprun({"--memory-snapshots=4K"}, worker({"train", folder / "run.pt", "adam", "10", "in-memory"})), 60s,
          kOneThread);
  CHECK(end == exited(0));
  CHECK(
      std::regex_match(end.err, std::regex("cannot keep the snapshot in memory: it has [0-9]+K, and "
                                           "--memory-snapshots=4K holds two of 2K. Pass --memory-snapshots=[0-9]+K or "
                                           "more, or leave it out.\n")));
  CHECK(load_snapshot(folder / "run.pt").at.step == 10);
}

TEST_CASE("a file that is newer than what memory could still hold wins", "[snapshots]") {
  const TempFolder folder;
  const Ended end =
      run(under_ddprun({"--memory-snapshots=64K"}, worker({"outgrow", folder / "run.pt"})), 60s, kOneThread);
  CHECK(end == exited(0));
  CHECK(end.out == "step 2 from disk\n");
}

TEST_CASE("over 2, then 3, then 1 ranks every sample of an epoch is seen once, but for the padding at its end",
          "[snapshots]") {
  const TempFolder folder;
  const std::string path = folder / "run.pt";
  std::multiset<int> seen;
  int first = 0;
  // 5 samples a step each: 4 x 10, 3 x 15 and 6 x 5 + 2 of 117 samples.
  for (const auto& [ranks, until] : std::vector<std::pair<int, int>>{{2, 4}, {3, 7}, {1, 14}}) {
    Ranks run(ranks, worker({"train", path, "adam", std::to_string(until)}));
    run.wait_all_good();
    for (int rank = 0; rank < ranks; ++rank) {
      std::istringstream lines(run[rank].out());
      int step = first;
      for (std::string line; std::getline(lines, line);) {
        INFO(line);
        std::smatch match;
        REQUIRE(std::regex_match(line, match, std::regex("step ([0-9]+) of epoch 0 saw(( [0-9]+)+)")));
        CHECK(std::stoi(match[1]) == ++step);
        std::istringstream samples(match[2]);
        for (int sample; samples >> sample;) seen.insert(sample);
      }
      CHECK(step == until);
    }
    first = until;
  }
  CHECK(seen.size() == 117);
  CHECK(std::set<int>(seen.begin(), seen.end()).size() == 117);
  CHECK(load_snapshot(path).at == Position{.epochs_run = 1, .step = 14, .samples_seen = 117});
}

TEST_CASE(
    "killed at any moment of saving, a run resumes from the last snapshot that was told to be safe, or a newer one",
    "[snapshots]") {
  const TempFolder folder;
  std::int64_t safe = 0;
  Series("snapshots: killed while saving, then resumed from the newest", 10, 200).run([&](std::uint64_t seed) {
    Command run(worker({"save", folder / "run.pt"}), kOneThread);
    run.wait_for_output("^saved ", 60s);
    std::this_thread::sleep_for(std::chrono::microseconds(std::mt19937_64(seed)() % 40000));  // any moment
    run.kill(SIGKILL);
    const Ended end = run.wait_exit(10s);
    const std::int64_t resumed = last_number(end.out, "resumed", -1), safe_before = safe;
    safe = last_number(end.out, "saved");
    INFO(end.out);
    REQUIRE(end.err == "");
    REQUIRE(resumed >= safe_before);
    REQUIRE(resumed <= safe_before + 1);
  });
  const auto names = names_in(folder.path());
  CHECK(names.size() <= 4);  // the newest, the one before, the generation, and what the last kill left half done
}

TEST_CASE("flipped bytes and cut files are named and passed over for the newest one that is good", "[snapshots]") {
  const TempFolder folder;
  const std::string path = folder / "run.pt";
  const auto run = [&](const std::string& steps) { return test::run(worker({"save", path, steps}), 60s, kOneThread); };
  REQUIRE(run("3") == exited(0));
  flip_a_byte(path);
  const Ended second = run("4");
  CHECK(second == exited(0));
  CHECK(last_number(second.out, "resumed") == 2);
  CHECK(second.err == "cannot read the snapshot " + path +
                          ": its content does not match its SHA-256. It is skipped and kept as " + path +
                          ".damaged.\n");
  fs::resize_file(path, fs::file_size(path) / 2);
  const Ended third = run("5");
  CHECK(last_number(third.out, "resumed") == 3);
  CHECK_THAT(third.err, Contains("it is damaged, or not a file of torch.save"));
  for (const auto& name : names_in(folder.path()))
    if (name.find(".generation") == std::string::npos) fs::resize_file(folder / name, 10);
  const Ended last = run("1");
  CHECK(last == exited(0));
  CHECK(last_number(last.out, "resumed", -1) == 0);
  CHECK(std::count(last.err.begin(), last.err.end(), '\n') == 2);
}

TEST_CASE("the best snapshot stays beside the newest, over a resume", "[snapshots]") {
  const TempFolder folder;
  for (const char* steps : {"4", "6"}) {
    REQUIRE(run(worker({"save", folder / "run.pt", steps, "best"}), 60s) == exited(0));
    CHECK(load_snapshot(folder / "run-best.pt").at.step == 2);
    CHECK(load_snapshot(folder / "run-best.pt").metric == 0.0);
  }
  CHECK(names_in(folder.path()) == std::set<std::string>{"run-best.pt", "run-g2-s5.pt", "run.pt", "run.pt.generation"});
}

TEST_CASE("on a full disk the last good snapshot stays, training goes on, and its end says what failed",
          "[snapshots]") {
  const TempFolder folder;
  SmallDisk disk(folder / "disk", "6m");  // one of 4 MiB
  if (!disk.mounted()) return;
  const std::string path = folder / "disk/run.pt";
  const Ended end = run(worker({"save", path, "3"}), 60s);
  CHECK(end == exited(1));
  CHECK(last_number(end.out, "saved") == 3);
  CHECK_THAT(end.err, Contains("cannot write the snapshot " + path + ": No space left on device. Free some space"));
  CHECK(names_in(folder / "disk") == std::set<std::string>{"run.pt", "run.pt.generation"});
  CHECK(last_number(run(worker({"save", path, "1"}), 60s).out, "resumed") == 1);
}

TEST_CASE("a run whose last snapshot cannot be written gives its results all the same, and is not started again",
          "[snapshots]") {
  const TempFolder folder;
  SmallDisk disk(folder / "disk", "64k");  // the generation fits, a snapshot does not
  if (!disk.mounted()) return;
  const std::string path = folder / "disk/run.pt", weights = folder / "weights.pt", result = folder / "result.json";
  const Words train = train_with(
      {"2", "--snapshot", path, "--batch-size=500", "--best=loss", "--publish", weights, "--result", result});
  for (const Words& command : {train, under_ddprun({"--nproc_per_node=2"}, train)}) {
    for (const std::string& file : {weights, result}) fs::remove(file);
    const Ended end = run(command, 60s, kOneThread);
    CHECK(end == exited(73));
    CHECK(count(end.err, "complete but for this last snapshot") <= (command == train ? 1 : 2));  // and in the report
    CHECK_THAT(end.err, Contains("cannot write the snapshot " + path + ": No space left on device"));
    CHECK_THAT(end.out, Contains("done: 2 epochs"));
    CHECK(count(end.out, "epoch 1 ") == 1);
    CHECK_FALSE(decode_weights(read_file(weights), weights).empty());
    const auto numbers = nlohmann::json::parse(read_file(result));
    CHECK(numbers["ended"] == "done");
    CHECK(numbers["epochs"] == 2);
    CHECK_THAT(numbers["snapshot_error"].get<std::string>(), Contains("No space left on device"));
  }
}

// By less and less memory that is left, from more than enough to nearly none.
TEST_CASE("with too little memory a good snapshot is not taken for a damaged one", "[snapshots][release-only]") {
  const TempFolder folder;
  const std::string path = folder / "run.pt";
  Snapshot snapshot;
  // Each larger than what malloc may keep for itself.
  for (int i = 0; i < 2; ++i) snapshot.model_state.insert(std::to_string(i), torch::ones({9 << 20}));
  const std::string bytes = encode(snapshot);
  SnapshotFolder({.path = path}).write({1, 1}, [&](NewFile& file) { file.append(bytes.data(), bytes.size()); });
  int found = 0, refused = 0, damaged = 0;
  for (int spare = 240; spare >= 0; spare -= 10) {
    const AddressSpaceLimit limit(static_cast<std::size_t>(spare) << 20);
    try {
      SnapshotFolder look({.path = path});
      const auto verify = [](const std::string& content, const std::string& name) {
        decode(content, name);
        return SnapshotStamp{};
      };
      ++(look.find(verify, [&](const std::string&) { ++damaged; }) ? found : refused);
    } catch (const std::exception&) {
      ++refused;
    }
  }
  CHECK(found > 0);
  CHECK(refused > 5);
  CHECK(damaged == 0);
  CHECK(names_in(folder.path()) == std::set<std::string>{"run.pt"});
}

TEST_CASE("a folder that cannot be written is told before the first step, and a snapshot there stays readable",
          "[snapshots]") {
  const TempFolder folder;
  SmallDisk disk(folder / "disk", "20m");
  if (!disk.mounted()) return;
  const std::string path = folder / "disk/run.pt";
  REQUIRE(run(worker({"save", path, "2"}), 60s) == exited(0));
  disk.make_read_only();
  const Ended end = run(worker({"save", path, "3"}), 60s);
  CHECK(end == exited(1));
  CHECK(end.out == "");
  CHECK(end.err == "cannot write the snapshot " + path +
                       ": Read-only file system. Name another place, or see to it that files can be written there.\n");
  CHECK(load_snapshot(path).at.step == 2);
}

TEST_CASE("machines with disks of their own keep a copy each, and who lacks the newest receives it", "[snapshots]") {
  const TempFolder folder;
  for (const char* machine : {"0", "1"}) fs::create_directory(folder / machine);
  const auto train = [&](int steps) {
    Ranks(2, worker({"train", folder / "{rank}/run.pt", "adam", std::to_string(steps)}), kMachineEach).wait_all_good();
    CHECK((read_file(folder / "0/run.pt") == read_file(folder / "1/run.pt")));  // though their statistics differ
    return load_snapshot(folder / "1/run.pt");
  };
  CHECK(train(3).at.step == 3);
  fs::copy_file(folder / "0/run.pt", folder / "older.pt");
  Ranks(2, worker({"train", folder / "undisturbed.pt", "adam", "9"})).wait_all_good();

  const int failed_machine = GENERATE(0, 1);
  INFO("machine " << failed_machine << " has lost its disk");
  fs::remove_all(folder / std::to_string(failed_machine));
  fs::create_directory(folder / std::to_string(failed_machine));
  CHECK(train(6).at.step == 6);
  CHECK(names_in(folder / "0").count("run-g1-s3.pt") + names_in(folder / "1").count("run-g1-s3.pt") == 2);

  fs::copy_file(folder / "older.pt", folder / std::to_string(failed_machine) / "run.pt",
                fs::copy_options::overwrite_existing);
  CHECK(train(8).at.step == 8);  // its own was good, but older

  flip_a_byte(folder / std::to_string(failed_machine) / "run.pt");
  const Snapshot end = train(9);
  CHECK(differences(load_snapshot(folder / "undisturbed.pt"), end) == "");
  CHECK(end.generation == 4);
  CHECK(end.extra == nlohmann::json{{"rank", 0}});
}

TEST_CASE("machines that share a disk write one copy", "[snapshots]") {
  const TempFolder folder;
  fs::create_directory(folder / "shared");
  Ranks(3, worker({"train", folder / "shared/run.pt", "sgd", "5", "every-step"}), kMachineEach).wait_all_good();
  CHECK(names_in(folder / "shared") == std::set<std::string>{"run-g1-s4.pt", "run.pt", "run.pt.generation"});
  Ranks(3, worker({"train", folder / "alone.pt", "sgd", "5"})).wait_all_good();
  CHECK(differences(load_snapshot(folder / "shared/run.pt"), load_snapshot(folder / "alone.pt")) == "");
}

TEST_CASE("what one rank cannot do is the same sentence on all of them", "[snapshots]") {
  const TempFolder folder;
  const auto all_report = [](const Words& words, const Environment& env, const std::string& sentence) {
    const std::string said = Ranks(2, worker(words), env).wait_all_refused();
    CHECK_THAT(said, Contains(sentence));
    CHECK(std::count(said.begin(), said.end(), '\n') == 1);
  };
  fs::create_directory(folder / "0");  // and no other
  all_report({"train", folder / "{rank}/run.pt", "sgd", "5"}, kMachineEach,
             "cannot write the snapshot " + (folder / "1/run.pt").string() + ": there is no folder");

  REQUIRE(run(worker({"save", folder / "other.pt", "1"}), 60s) == exited(0));
  all_report({"train", folder / "other.pt", "sgd", "5"}, {},
             "cannot load the snapshot " + (folder / "other.pt").string() +
                 ": it has 1 tensors where the model has 9. It belongs to another model");

  Ranks(2, worker({"train", folder / "sgd.pt", "sgd", "2"})).wait_all_good();
  all_report({"train", folder / "sgd.pt", "adam", "5"}, {}, "it is another optimizer's: it has no step");
}
