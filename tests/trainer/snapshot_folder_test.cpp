#include "trainer/ddp/snapshot/snapshot_folder.h"

#include <new>
#include <system_error>

#include "tests/support/test.h"
#include "tests/trainer/fake_files.h"
#include "trainer/ddp/snapshot/damaged.h"

using Survives = FakeFiles::Survives;

namespace {

using Names = std::vector<std::string>;

const std::string kPath = "runs/a.pt";

// In these tests a snapshot is "GENERATION STEP METRIC end".
std::string content_of(const SnapshotStamp& stamp) {
  return std::to_string(stamp.generation) + " " + std::to_string(stamp.step) + " " +
         std::to_string(stamp.metric.value_or(0)) + " end";
}

SnapshotStamp verify(const std::string& bytes, const std::string& name) {
  std::istringstream words(bytes);
  SnapshotStamp stamp;
  std::string end;
  double metric = 0;
  if (!(words >> stamp.generation >> stamp.step >> metric >> end) || end != "end")
    throw DamagedFile("cannot read " + name, "it is torn");
  stamp.metric = metric;
  return stamp;
}

// One process after the other works in one folder.
struct Run {
  explicit Run(SnapshotPolicy its_policy = {.path = kPath}) : policy(std::move(its_policy)) {}

  FakeFiles files;
  SnapshotPolicy policy;
  Names warnings;
  std::optional<SnapshotFolder> folder;

  // A new process. Where it goes on from; begins the next generation.
  std::optional<SnapshotFolder::Found> start() {
    folder.emplace(policy, files);
    const auto found = find_snapshot();
    folder->begin(folder->last_generation() + 1);
    return found;
  }
  std::optional<SnapshotFolder::Found> find_snapshot() {
    return folder->find(verify, [&](const std::string& sentence) { warnings.push_back(sentence); });
  }
  void save(const SnapshotStamp& stamp) {
    folder->write(stamp, [&](NewFile& file) {
      const std::string bytes = content_of(stamp);
      file.append(bytes.data(), bytes.size() / 2);
      file.append(bytes.data() + bytes.size() / 2, bytes.size() - bytes.size() / 2);
    });
  }
  void save(std::int64_t step, double metric = 0) { save({folder->last_generation(), step, "", metric}); }
  std::string at(const std::string& path) { return files.read("runs/" + path).value_or("nothing"); }
  Names names() { return files.names("runs"); }
};

// Its first process has begun.
struct Started : Run {
  explicit Started(SnapshotPolicy its_policy = {.path = kPath}) : Run(std::move(its_policy)) { start(); }
};

}  // namespace

TEST_CASE("without a snapshot there is nothing to find and nothing to say", "[snapshot_folder]") {
  Run run;
  CHECK_FALSE(run.start());
  CHECK(run.warnings.empty());
}

TEST_CASE("the newest snapshot is found, and as many are kept as the policy says", "[snapshot_folder]") {
  Started run({.path = kPath, .keep_last = 3});
  for (int step = 1; step <= 5; ++step) run.save(step * 10);
  CHECK(run.names() == Names{"a-g1-s30.pt", "a-g1-s40.pt", "a.pt", "a.pt.generation"});
  const auto found = run.start();
  CHECK(found->path == "runs/a.pt");
  CHECK(found->stamp.step == 50);
  run.save(60);
  CHECK(run.names() == Names{"a-g1-s40.pt", "a-g1-s50.pt", "a.pt", "a.pt.generation"});
  CHECK(run.at("a.pt") == content_of({2, 60, "", 0}));
}

TEST_CASE("one snapshot alone can be kept, too", "[snapshot_folder]") {
  Started run({.path = "runs/a", .keep_last = 1});
  for (int step = 1; step <= 3; ++step) run.save(step);
  CHECK(run.names() == Names{"a", "a.generation"});
  CHECK(run.start()->stamp.step == 3);
}

TEST_CASE("the best snapshot by its metric stays, over restarts", "[snapshot_folder]") {
  const bool highest = GENERATE(true, false);
  const double sign = highest ? 1 : -1;
  Started run({.path = kPath, .keep_last = 1, .best = highest ? BestMetric::highest : BestMetric::lowest});
  run.save(1, sign * 0.5);
  run.save(2, sign * 0.9);
  run.save(3, sign * 0.7);
  run.save(4, std::nan(""));
  CHECK(run.at("a-best.pt") == content_of({1, 2, "", sign * 0.9}));
  run.start();
  run.save(5, sign * 0.8);
  CHECK(run.at("a-best.pt") == content_of({1, 2, "", sign * 0.9}));
  run.save(6, sign * 0.91);
  CHECK(run.at("a-best.pt") == content_of({2, 6, "", sign * 0.91}));
}

TEST_CASE("a process that has the snapshot elsewhere need not read the folder", "[snapshot_folder]") {
  Started run({.path = kPath, .best = BestMetric::highest});
  run.save(10, 0.5);
  run.save(20, 0.9);
  run.save(30, 0.7);
  const auto known = run.folder->known();
  run.folder.emplace(run.policy, run.files);
  run.files.reads = 0;
  REQUIRE(run.folder->take(known));
  CHECK(run.files.reads == 0);
  CHECK(run.folder->best_metric() == 0.9);
  run.folder->begin(2);
  run.save({2, 40, "", 0.8});
  CHECK(run.names() == Names{"a-best.pt", "a-g1-s30.pt", "a.pt", "a.pt.generation"});
  CHECK(run.at("a-best.pt") == content_of({1, 20, "", 0.9}));
}

TEST_CASE("what is known of a folder is not believed once its files are others", "[snapshot_folder]") {
  Run run({.path = kPath, .best = BestMetric::highest});
  const auto unknown = [&](const SnapshotFolder::Known& known) {
    run.folder.emplace(run.policy, run.files);
    return !run.folder->take(known);
  };
  run.start();
  const auto before = run.folder->known();
  run.save(10, 0.5);
  const auto known = run.folder->known();
  CHECK_FALSE(unknown(known));
  CHECK(unknown(before));
  CHECK(unknown({}));
  run.files.put("runs/a-best.pt", "another");
  CHECK(unknown(known));
  run.start();
  run.files.remove("runs/a.pt");
  CHECK(unknown(known));
}

TEST_CASE("what a person gave another name is never touched", "[snapshot_folder]") {
  Run run({.path = kPath, .keep_last = 1});
  const Names pinned{"a-before.pt", "a-g1-s2.pt.pin", "a-g1-s2.txt", "a-g1.pt", "a-gx-s2.pt", "b-g1-s1.pt"};
  for (const auto& name : pinned) run.files.put("runs/" + name, "mine");
  run.start();
  for (int step = 1; step <= 3; ++step) run.save(step);
  for (const auto& name : pinned) CHECK(run.at(name) == "mine");
}

TEST_CASE("a damaged snapshot is named, put aside and passed over", "[snapshot_folder]") {
  Started run;
  run.save(1);
  run.save(2);
  run.files.put("runs/a.pt", "1 2");
  const auto found = run.start();
  REQUIRE(found);
  CHECK(found->stamp.step == 1);
  REQUIRE(run.warnings.size() == 1);
  CHECK_THAT(run.warnings[0], Contains("runs/a.pt: it is torn") && Contains("runs/a.pt.damaged"));
  CHECK(run.at("a.pt.damaged") == "1 2");
  run.save(2);  // the good one stays, the damaged one does not take its place
  CHECK(run.at("a-g1-s1.pt") == content_of({1, 1}));
}

TEST_CASE("where all others are damaged the best one counts, and with none left the run begins anew",
          "[snapshot_folder]") {
  Started run({.path = kPath, .best = BestMetric::highest});
  run.save(1, 0.5);
  run.save(2, 0.4);
  for (const char* name : {"a.pt", "a-g1-s1.pt"}) run.files.put(std::string("runs/") + name, "no");
  CHECK(run.start()->stamp.step == 1);
  CHECK(run.warnings.size() == 2);
  run.files.put("runs/a-best.pt", "no");
  CHECK_FALSE(run.start());
  CHECK(run.warnings.size() == 3);
}

TEST_CASE("a snapshot that another program put in place counts", "[snapshot_folder]") {
  Started run;
  run.save(7);
  run.files.put("runs/a.pt", content_of({0, 0}));
  CHECK(run.start()->stamp.step == 0);
  run.save(1);
  CHECK(run.names() == Names{"a-g0-s0.pt", "a.pt", "a.pt.generation"});
}

TEST_CASE("starting over keeps the earlier run's newest snapshot as .old", "[snapshot_folder]") {
  Started run({.path = kPath, .best = BestMetric::highest});
  CHECK_FALSE(run.folder->retire());
  run.save(1, 1);
  run.save(2, 2);
  run.start();
  CHECK(run.folder->retire());
  CHECK_FALSE(run.find_snapshot());
  CHECK(run.names() == Names{"a.pt.generation", "a.pt.old"});
  CHECK(run.at("a.pt.old") == content_of({1, 2, "", 2}));
}

TEST_CASE("a writer of an older generation writes no more, and hurts nobody", "[snapshot_folder]") {
  Started run;
  run.save(1);
  SnapshotFolder old = *std::exchange(run.folder, std::nullopt);
  CHECK(run.start()->stamp.generation == 1);
  const auto write = [&] { old.write({1, 2}, [](NewFile& file) { file.append("1 2 0 end", 9); }); };
  CHECK_THROWS_WITH(write(), Contains("generation 2 has begun there, and this is generation 1"));
  CHECK(run.at("a.pt") == content_of({1, 1}));
  CHECK(run.names() == Names{"a.pt", "a.pt.generation"});
}

TEST_CASE("of those that claim one folder the last one has it", "[snapshot_folder]") {
  Run run;
  SnapshotFolder one(run.policy, run.files), other(run.policy, run.files);
  one.claim("1 0");
  other.claim("1 4");
  CHECK(one.claimed_by() == "1 4");
  run.start();
  CHECK(run.names() == Names{"a.pt.generation"});
}

TEST_CASE("a full disk is one sentence, loses nothing, and the next write may succeed", "[snapshot_folder]") {
  Started run;
  run.save(1);
  run.files.errno_of_next = ENOSPC;
  CHECK_THROWS_WITH(run.save(2),
                    Contains("cannot write the snapshot runs/a.pt: No space left on device. Free some space"));
  CHECK(run.names() == Names{"a.pt", "a.pt.generation"});
  CHECK(run.at("a.pt") == content_of({1, 1}));
  run.save(3);
  CHECK(run.at("a.pt") == content_of({1, 3}));
}

TEST_CASE("what the disk cannot give at the moment is no reason to begin anew", "[snapshot_folder]") {
  Started run;
  run.save(1);
  run.save(2);
  run.files.errno_of_read = EIO;
  CHECK_THROWS_WITH(run.find_snapshot(), Contains("cannot read the snapshot runs/a.pt: Input/output error"));
  CHECK(run.start()->stamp.step == 2);
}

TEST_CASE("only what its bytes prove makes a snapshot damaged: whatever else fails leaves every file as it is",
          "[snapshot_folder]") {
  Started run({.path = kPath, .best = BestMetric::highest});
  run.save(1, 0.5);
  run.save(2, 0.4);
  const Names before = run.names();
  const auto find_with = [&](const std::function<void()>& what) {
    run.folder.emplace(run.policy, run.files);
    run.folder->find(
        [&](const std::string& bytes, const std::string& name) {
          what();
          return verify(bytes, name);
        },
        [&](const std::string& sentence) { run.warnings.push_back(sentence); });
  };
  CHECK_THROWS_AS(find_with([] { throw std::bad_alloc(); }), std::bad_alloc);
  CHECK_THROWS_AS(find_with([] { throw std::system_error(EAGAIN, std::generic_category()); }), std::system_error);
  CHECK_THROWS_AS(find_with([] { throw Error("cannot read it", "there is too little memory for it"); }), Error);
  run.files.no_memory_for_next_read = true;
  CHECK_THROWS_WITH(find_with([] {}),
                    Contains("cannot read the snapshot runs/a.pt: there is too little memory for it"));
  CHECK(run.warnings.empty());
  CHECK(run.names() == before);
  CHECK(run.start()->stamp.step == 2);
}

TEST_CASE("the newest snapshot is there at every moment, also where a disk has no links", "[snapshot_folder]") {
  Run run({.path = kPath, .keep_last = 3, .best = BestMetric::highest});
  run.files.has_links = GENERATE(true, false);
  run.start();
  for (int step = 1; step <= 5; ++step) run.save(step, step < 4 ? step : 0);
  CHECK(run.names() == Names{"a-best.pt", "a-g1-s3.pt", "a-g1-s4.pt", "a.pt", "a.pt.generation"});
  CHECK(run.at("a-best.pt") == content_of({1, 3, "", 3}));
  CHECK(run.at("a-g1-s4.pt") == content_of({1, 4, "", 0}));
}

TEST_CASE("what another machine knows to be better stays the best", "[snapshot_folder]") {
  Started run({.path = kPath, .best = BestMetric::lowest});
  run.folder->set_known_best(0.5);
  run.folder->set_known_best(0.7);
  run.save(1, 0.6);
  CHECK(run.at("a-best.pt") == "nothing");
  run.save(2, 0.4);
  CHECK(run.at("a-best.pt") == content_of({1, 2, "", 0.4}));
}

TEST_CASE("a writing that was cut off is tidied up by the next generation", "[snapshot_folder]") {
  Run run;
  run.files.put("runs/a.pt.writing.g7.123", "1 ");
  run.start();
  CHECK(run.names() == Names{"a.pt.generation"});
}

// The power goes at every operation in turn; of what was not synced nothing, everything or a part is there afterwards.
TEST_CASE("whenever the power goes, the newest snapshot that was told to be safe is found, or a newer one",
          "[snapshot_folder]") {
  const int keep_last = GENERATE(1, 2, 3);
  const auto best = GENERATE(BestMetric::none, BestMetric::lowest);
  constexpr int kSteps = 4;
  std::vector<std::pair<Survives, unsigned>> ways{{Survives::nothing, 0}, {Survives::everything, 0}};
  for (unsigned seed = 0; seed < 20; ++seed) ways.push_back({Survives::some, seed});
  for (const auto& [survives, seed] : ways) {
    bool all_done = false;
    for (int cut = 0; !all_done; ++cut) {
      INFO("keep " << keep_last << ", cut at operation " << cut << ", survives " << static_cast<int>(survives)
                   << " seed " << seed);
      Run run({.path = kPath, .keep_last = keep_last, .best = best});
      run.files.cut_at = cut;
      int safe = 0;
      try {
        run.start();
        for (int step = 1; step <= kSteps; ++step, ++safe) run.save(step, 1.0 / step);
        all_done = true;
      } catch (const PowerCut&) {
      }
      run.files.restart(survives, seed);
      const auto found = run.start();
      REQUIRE((found ? found->stamp.step : 0) >= safe);
      REQUIRE((found ? found->stamp.step : 0) <= safe + 1);
      if (survives != Survives::some) REQUIRE(run.warnings.empty());
      if (found && best != BestMetric::none)
        REQUIRE(run.at("a-best.pt") == found->bytes);  // each is better than before
      run.save(kSteps + 1, 0.1);
      REQUIRE(run.at("a.pt") == content_of({run.folder->last_generation(), kSteps + 1, "", 0.1}));
      REQUIRE(run.names().size() <=
              static_cast<std::size_t>(keep_last) + 1 + (best != BestMetric::none) + run.warnings.size());
    }
  }
}

TEST_CASE("on a real disk, too, a snapshot that cannot be written is one sentence and leaves nothing half done",
          "[snapshot_folder]") {
  const TempFolder folder;
  const auto write = [](SnapshotFolder& to) { to.write({1, 1}, [](NewFile& file) { file.append("1 1 0 end", 9); }); };
  SnapshotFolder nowhere({.path = folder / "none/a.pt"});
  CHECK_THROWS_WITH(nowhere.check_writable(),
                    Contains("cannot write the snapshot " + (folder / "none/a.pt").string() + ": there is no folder " +
                             (folder / "none").string() + ". Create it, or name another place."));
  CHECK_THROWS_WITH(write(nowhere), Contains("there is no folder"));
  folder.write("file", "");
  SnapshotFolder in_file({.path = folder / "file/a.pt"});
  CHECK_THROWS_WITH(in_file.check_writable(), Contains("is not a folder. Name another place."));
  CHECK_FALSE(nowhere.find(verify, [](const std::string&) {}));

  SnapshotFolder good({.path = folder / "a.pt", .best = BestMetric::highest});
  CHECK_NOTHROW(good.check_writable());
  good.begin(1);
  good.write({1, 1, "", 0.5}, [](NewFile& file) { file.append("1 1 .5 end", 10); });
  write(good);
  CHECK(test::read_file(folder / "a.pt") == "1 1 0 end");
  CHECK(test::read_file(folder / "a-best.pt") == "1 1 .5 end");
  CHECK(fs::hard_link_count(folder / "a-best.pt") == 2);

  for (const char* name : {"a.pt", "a-g1-s1.pt"}) fs::remove(folder / name);
  fs::create_directory(folder / "a.pt");  // a file cannot take its place
  fs::create_directory(folder / "a-g1-s1.pt");
  folder.write("a-g1-s1.pt/file", "");
  CHECK_THROWS_AS(write(good), Error);
  for (const auto& entry : fs::directory_iterator(folder.path()))
    CHECK(entry.path().string().find(".writing.") == std::string::npos);
}
