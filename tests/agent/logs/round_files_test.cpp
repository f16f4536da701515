// The files of a round's workers, on a file system that answers and on one that does not.
#include "agent/logs/round_files.h"

#include <future>

#include <asio/post.hpp>

#include "tests/support/test.h"

namespace {

using Said = std::vector<std::string>;

// Makes nothing before it is released.
struct SlowDisk {
  RoundFiles::Make make() const {
    return [over = release->get_future().share()](const WantedFiles& wanted) {
      over.wait();
      return make_files(wanted);
    };
  }
  const std::shared_ptr<std::promise<void>> release = std::make_shared<std::promise<void>>();
};

struct Rig {
  explicit Rig(Duration patience = 60s, const RoundFiles::Make& make = make_files)
      : files(io, [this](const std::string& line) { said.push_back(line); }, make, {.told_late = patience}) {}

  void begin(int round) {
    const fs::path of_round = folder / ("round-" + std::to_string(round));
    WantedFiles wanted{of_round / "rank-0"};
    wanted.own = {wanted.folder / "stdout.log"};
    wanted.ours = {wanted.folder / "stderr.log"};
    files.make(of_round, {{0, wanted}}, [this, round] { begun.push_back(round); });
  }
  bool becomes_ready(int round) {
    return eventually([&] { return io.restart(), io.poll(), !begun.empty() && begun.back() == round; }, 20s);
  }

  const TempFolder folder;
  asio::io_context io;
  Said said;
  std::vector<int> begun;
  RoundFiles files;
};

}  // namespace

TEST_CASE("the folders and files of a round's workers are there before it begins", "[round_files]") {
  Rig rig;
  rig.begin(1);
  REQUIRE(rig.becomes_ready(1));
  const fs::path folder = rig.folder / "round-1" / "rank-0";
  CHECK(fs::exists(folder / "stderr.log"));
  auto made = rig.files.take(0);
  REQUIRE(made);
  CHECK(made->problem.empty());
  REQUIRE(made->own.at(folder / "stdout.log").fd);
  CHECK(write(made->own.at(folder / "stdout.log").fd.get(), "line\n", 5) == 5);
  CHECK(read_file(folder / "stdout.log") == "line\n");
  REQUIRE(rig.files.take(0));
  CHECK(rig.files.take(0)->own.empty());
  CHECK_FALSE(rig.files.take(1));
  CHECK(rig.said.empty());
}

TEST_CASE("what cannot be made is said in the words of the folder or the file", "[round_files]") {
  Rig rig;
  rig.folder.write("round-1", "");
  rig.begin(1);
  REQUIRE(rig.becomes_ready(1));
  CHECK(
      rig.files.take(0)->problem.starts_with("cannot make the log folder " + (rig.folder / "round-1/rank-0").string()));
  const fs::path file = rig.folder / "round-2" / "rank-0" / "stdout.log";
  fs::create_directories(file);
  rig.begin(2);
  REQUIRE(rig.becomes_ready(2));
  auto made = rig.files.take(0);
  CHECK(made->problem.empty());
  CHECK(made->own.at(file).error == EISDIR);
}

TEST_CASE("a disk that takes its time delays a round, and not the loop", "[round_files]") {
  const SlowDisk disk;
  Rig rig(60s, disk.make());
  rig.begin(1);
  bool turns = false;
  asio::post(rig.io, [&] { turns = true; });
  rig.io.poll();
  CHECK(turns);
  CHECK(rig.begun.empty());
  disk.release->set_value();
  REQUIRE(rig.becomes_ready(1));
  CHECK(rig.files.take(0)->problem.empty());
  CHECK(rig.said.empty());
}

TEST_CASE("rounds begin without files on a disk that does not answer, which is told once, and with them when it does",
          "[round_files]") {
  const SlowDisk disk;
  Rig rig(100ms, disk.make());
  rig.begin(1);
  CHECK(rig.begun.empty());
  REQUIRE(rig.becomes_ready(1));
  CHECK_FALSE(rig.files.take(0));
  rig.begin(2);
  CHECK(rig.begun.back() == 2);  // it does not wait again
  CHECK_FALSE(rig.files.take(0));
  CHECK(rig.said == Said{"the log folder " + (rig.folder / "round-1").string() +
                         ": the file system has not answered for 0 s; ddprun goes on without it"});
  disk.release->set_value();
  const auto has_files = [&] {
    rig.begin(3);
    return rig.becomes_ready(3) && rig.files.take(0).has_value();
  };
  CHECK(eventually(has_files, 20s));
  CHECK(rig.said.size() == 1);
}

TEST_CASE("a round that takes the place of one that is not ready begins, and that one never", "[round_files]") {
  const SlowDisk disk;
  Rig rig(60s, disk.make());
  rig.begin(1);
  rig.begin(2);
  disk.release->set_value();
  REQUIRE(rig.becomes_ready(2));
  CHECK(rig.begun == std::vector<int>{2});
  CHECK(rig.files.take(0));
}
