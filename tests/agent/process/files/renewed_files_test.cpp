#include "agent/process/files/renewed_files.h"

#include "tests/support/command.h"
#include "tests/support/test.h"

namespace {

// Two files that must have the same text.
struct Pair {
  explicit Pair(int said_after = 1)
      : files({"pair", {folder / "a", folder / "b"}, {}, said_after}, thread, use(), say()) {
    write("a", "1");
    write("b", "1");
    CHECK(files.read().empty());
  }
  // As by who renews it.
  void write(const std::string& name, const std::string& text) { fs::rename(folder.write("new", text), folder / name); }
  RenewedFiles::Use use() {
    return [this](const Words& texts) {
      if (texts[0] != texts[1]) return std::string("they differ");
      return used.push_back(texts[0]), std::string();
    };
  }
  std::function<void(const std::string&)> say() {
    return [this](const std::string& line) { said.push_back(line); };
  }
  TempFolder folder;
  Words used, said;
  FileThread thread{say()};
  RenewedFiles files;
};

}  // namespace

TEST_CASE("files are used again once they have changed", "[renewed]") {
  Pair pair;
  pair.files.check();
  CHECK(pair.used == Words{"1"});
  pair.write("a", "2");
  pair.write("b", "2");
  pair.files.check();
  pair.files.check();
  CHECK(pair.used == Words{"1", "2"});
  CHECK(pair.said.empty());
}

TEST_CASE("a file that is missing or half written leaves the old one in use, which is said once", "[renewed]") {
  Pair pair;
  const std::string told = "the new pair cannot be used: ";
  fs::remove(pair.folder / "b");
  pair.files.check();
  pair.files.check();
  CHECK(pair.said ==
        Words{told + (pair.folder / "b").string() + " is empty or cannot be read; the old one stays in use"});
  pair.write("b", "2");
  pair.files.check();
  CHECK(pair.used == Words{"1"});
  CHECK(pair.said.size() == 1);
  pair.write("a", "2");
  pair.files.check();
  CHECK(pair.used == Words{"1", "2"});
  pair.write("a", "");
  pair.files.check();
  CHECK(pair.said.size() == 2);
}

TEST_CASE("files that are replaced one after the other are given some checks to become a pair", "[renewed]") {
  Pair pair(3);
  for (const std::string text : {"2", "3"}) {
    pair.write("a", text);
    pair.files.check();
    pair.files.check();
    pair.write("b", text);
    pair.files.check();
  }
  CHECK(pair.used == Words{"1", "2", "3"});
  CHECK(pair.said.empty());
}

TEST_CASE("files are looked at as often as they may be", "[renewed]") {
  Pair pair;
  RenewedFiles rarely({"pair", {pair.folder / "a", pair.folder / "b"}, std::chrono::hours(1)}, pair.thread, pair.use(),
                      pair.say());
  rarely.check();
  CHECK(pair.used == Words{"1"});
}
