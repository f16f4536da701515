#include "agent/process/files/regular_file.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

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

TEST_CASE("a record's file is its owner's alone, others are as the umask says", "[regular_file]") {
  const TempFolder folder;
  const mode_t before = umask(0022);
  CHECK(replace_file(folder / "status.json", "mine", Readers::owner));
  CHECK(replace_file(folder / "error.json", "all's"));
  umask(before);
  CHECK((fs::status(folder / "status.json").permissions() & fs::perms::all) == fs::perms(0600));
  CHECK((fs::status(folder / "error.json").permissions() & fs::perms::all) == fs::perms(0644));
}

TEST_CASE("a file for which there is no room stays as it was, and nothing else is left", "[regular_file]") {
  const TempFolder folder;
  CHECK(replace_file(folder / "status.json", "old"));
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{10, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  const bool replaced = replace_file(folder / "status.json", "more than ten bytes");
  const int why = errno;
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  CHECK_FALSE(replaced);
  CHECK(why == EFBIG);
  CHECK(test::read_file(folder / "status.json") == "old");
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("what others put beside a file beforehand is no place for its content", "[regular_file]") {
  const TempFolder folder;
  const std::string own = ".ddprun-" + std::to_string(getpid());
  folder.write("target", "theirs");
  for (const std::string& name : {own, std::string(".new"), std::string(".tmp"), std::string(".writing")})
    fs::create_symlink(folder / "target", folder / ("error.json" + name));
  CHECK(replace_file(folder / "error.json", "ours"));
  CHECK(test::read_file(folder / "error.json") == "ours");
  CHECK(test::read_file(folder / "target") == "theirs");
}
