#include "trainer/ddp/snapshot_file.h"

#include <sys/stat.h>

#include "rendezvous/error.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"

using namespace ddprun;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

struct Disk {
  test::TempFolder folder;
  std::string path = folder / "snapshot.pt";
  std::vector<std::string> warnings;

  // In these tests a snapshot is good unless it says "bad".
  std::optional<FoundSnapshot> find() {
    return find_snapshot(
        path,
        [](const std::string& bytes, const std::string& name) {
          if (bytes.find("bad") != std::string::npos) throw Error("cannot read " + name, "it is bad");
        },
        [&](const std::string& sentence) { warnings.push_back(sentence); });
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

TEST_CASE("without a snapshot there is nothing to find and nothing to say", "[snapshot_file]") {
  Disk disk;
  CHECK_FALSE(disk.find());
  CHECK(disk.warnings.empty());
}

TEST_CASE("the newest snapshot is found and the one before it kept", "[snapshot_file]") {
  Disk disk;
  for (const char* bytes : {"one", "two", "three"}) write_snapshot(disk.path, bytes);
  CHECK(disk.find()->bytes == "three");
  CHECK(disk.files() == std::vector<std::string>{"snapshot.pt", "snapshot.pt.previous"});
  CHECK(test::read_file(disk.path + ".previous") == "two");
}

TEST_CASE("a damaged snapshot is named, put aside and passed over", "[snapshot_file]") {
  Disk disk;
  write_snapshot(disk.path, "one");
  write_snapshot(disk.path, "bad");
  const auto found = disk.find();
  REQUIRE(found);
  CHECK(found->bytes == "one");
  REQUIRE(disk.warnings.size() == 1);
  CHECK_THAT(disk.warnings[0], Contains(disk.path + ": it is bad") && Contains(disk.path + ".damaged"));
}

TEST_CASE("a damaged snapshot never takes the place of the good one before it", "[snapshot_file]") {
  Disk disk;
  write_snapshot(disk.path, "one");
  write_snapshot(disk.path, "bad");
  REQUIRE(disk.find());
  write_snapshot(disk.path, "bad again");
  CHECK(disk.find()->bytes == "one");
}

TEST_CASE("a run killed between the two renames resumes from the previous snapshot", "[snapshot_file]") {
  Disk disk;
  write_snapshot(disk.path, "one");
  fs::rename(disk.path, disk.path + ".previous");
  disk.folder.write("snapshot.pt.writing.1", "tw");
  CHECK(disk.find()->bytes == "one");
  CHECK(disk.warnings.empty());
}

TEST_CASE("with every snapshot damaged the run begins anew, with a warning for each", "[snapshot_file]") {
  Disk disk;
  write_snapshot(disk.path, "bad");
  write_snapshot(disk.path, "bad");
  CHECK_FALSE(disk.find());
  CHECK(disk.warnings.size() == 2);
}

TEST_CASE("starting over keeps the earlier run's newest snapshot as .old", "[snapshot_file]") {
  Disk disk;
  CHECK_FALSE(retire_snapshots(disk.path));
  write_snapshot(disk.path, "one");
  write_snapshot(disk.path, "two");
  CHECK(retire_snapshots(disk.path));
  CHECK_FALSE(disk.find());
  CHECK(disk.files() == std::vector<std::string>{"snapshot.pt.old"});
  CHECK(test::read_file(disk.path + ".old") == "two");
}

TEST_CASE("a snapshot that cannot be written is one sentence, and leaves nothing half done", "[snapshot_file]") {
  Disk disk;
  CHECK_THROWS_WITH(write_snapshot(disk.folder / "none/snapshot.pt", "x"), Contains("cannot write the snapshot") &&
                                                                               Contains("No such file or directory") &&
                                                                               Contains("--snapshot"));
  CHECK_THROWS_WITH(check_writable(disk.folder / "none/snapshot.pt"), Contains("No such file or directory"));
  CHECK_NOTHROW(check_writable(disk.path));
  fs::create_directory(disk.path);  // rename() cannot replace it
  fs::create_directory(disk.path + ".previous");
  disk.folder.write("snapshot.pt.previous/file", "");
  CHECK_THROWS_AS(write_snapshot(disk.path, "x"), Error);
  CHECK(disk.files() == std::vector<std::string>{"snapshot.pt", "snapshot.pt.previous"});
}
