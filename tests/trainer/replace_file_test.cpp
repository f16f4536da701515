#include "trainer/ddp/snapshot/replace_file.h"

#include "tests/support/test.h"

namespace {

std::size_t files_in(const std::string& folder) {
  const fs::directory_iterator files(folder);
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

}  // namespace

TEST_CASE("a file is replaced by its pieces, and nothing else is left", "[replace_file]") {
  const TempFolder folder;
  for (const char* first : {"one ", "two "}) {
    replace_file(folder / "file", {first, "", "piece"}, "the weights");
    CHECK(test::read_file(folder / "file") == std::string(first) + "piece");
  }
  CHECK(files_in(folder.path()) == 1);
}

TEST_CASE("where a link leads is replaced, and a pipe or a device is not", "[replace_file]") {
  const TempFolder folder;
  folder.write("real", "old");
  fs::create_symlink(folder / "real", folder / "link");
  replace_file(folder / "link", {"new"}, "the file");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(test::read_file(folder / "real") == "new");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(
      replace_file(folder / "pipe", {"new"}, "the file"),
      "cannot write the file " + (folder / "pipe").string() + ": it is not a regular file. Name another place.");
  CHECK(fs::is_fifo(folder / "pipe"));
}

TEST_CASE("a file that cannot be replaced stays as it was", "[replace_file]") {
  const TempFolder folder;
  fs::create_directory(folder / "taken");
  folder.write("taken/by", "a file");
  CHECK_THROWS_WITH(replace_file(folder / "taken", {"bytes"}, "the weights"),
                    Contains("cannot write the weights " + (folder / "taken").string() + ": "));
  CHECK(test::read_file(folder / "taken/by") == "a file");
  CHECK(files_in(folder.path()) == 1);
  CHECK_THROWS_WITH(
      replace_file(folder / "nowhere/file", {"bytes"}, "the weights"),
      Contains("there is no folder " + (folder / "nowhere").string() + ". Create it, or name another place."));
}
