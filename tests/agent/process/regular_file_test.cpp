#include "agent/process/regular_file.h"

#include "tests/support/test.h"

TEST_CASE("an error file that is a pipe, a folder or endless does not stop ddprun", "[regular_file]") {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(beginning_of_file(pipe, 100).empty());
  CHECK(beginning_of_file(folder.path(), 100).empty());
  CHECK(beginning_of_file("/dev/zero", 100).empty());
  CHECK(beginning_of_file(folder / "gone", 100).empty());
  folder.write("long", std::string(100'000, 'x'));
  CHECK(beginning_of_file(folder / "long", 50'000).size() == 50'000);
}

TEST_CASE("a link is followed only where it may lead anywhere", "[regular_file]") {
  const TempFolder folder;
  const auto secret = folder.write("secret", "mine");
  fs::create_symlink(secret, folder / "link");
  CHECK(beginning_of_file(folder / "link", 10) == "mine");
  CHECK(beginning_of_file(folder / "link", 10, Links::refused).empty());
  CHECK(newest_part(folder / "link", 0).empty());
  CHECK(newest_part(secret, 1) == "ine");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK(newest_part(folder / "pipe", 0).empty());
}

TEST_CASE("ddprun's own error file is replaced as a whole, and a link or device at its place stays", "[regular_file]") {
  const TempFolder folder;
  CHECK(replace_file(folder / "error.json", "one"));
  CHECK(replace_file(folder / "error.json", "two"));
  CHECK(test::read_file(folder / "error.json") == "two");
  fs::create_symlink(folder / "error.json", folder / "link");
  CHECK(replace_file(folder / "link", "three"));
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(test::read_file(folder / "error.json") == "three");
  CHECK(replace_file("/dev/null", "four"));
  CHECK(fs::is_character_file("/dev/null"));
  CHECK_FALSE(replace_file("/nonsuch/error.json", "five"));
  CHECK_FALSE(replace_file("/dev/full", "six"));
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 2);
}
