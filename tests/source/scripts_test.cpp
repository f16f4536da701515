// What our shell scripts may not do.
#include "tests/support/test.h"

namespace {

// What a script's usage() prints, by the script's text.
Words usage_lines(const fs::path& script) {
  Words out;
  bool in_usage = false;
  for (const std::string& line : lines_of(read_file(script))) {
    if (line == "}") in_usage = false;
    if (in_usage) out.push_back(line);
    if (line == "usage() {") in_usage = true;
  }
  return out;
}

}  // namespace

TEST_CASE("the help of every script has 80 columns", "[scripts]") {
  int scripts = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(ddprun::test::source_folder()) / "scripts")) {
    if (entry.path().extension() != ".sh") continue;
    const Words lines = usage_lines(entry.path());
    scripts += !lines.empty();
    for (const std::string& line : lines) {
      INFO(entry.path() << ": " << line);
      CHECK(line.size() <= 80);
    }
  }
  CHECK(scripts > 7);
}

TEST_CASE(
    "no script ends a pipe before its writer has written: pipefail makes a failure of that once there is much to write",
    "[scripts]") {
  static const std::regex kEndsEarly(R"((^|[^|])\|\s*(head\b|grep\s+([^|]*\s)?-\w*[qm]))");
  CHECK(std::regex_search("sort -rn times | head -n 10", kEndsEarly));
  CHECK(std::regex_search("ps | grep -v x | grep -e y -q", kEndsEarly));
  CHECK_FALSE(std::regex_search("grep -q a file || grep -m 1 b file | sed -n 1p", kEndsEarly));
  int scripts = 0;
  for (const fs::directory_entry& entry :
       fs::recursive_directory_iterator(fs::path(ddprun::test::source_folder()) / "scripts")) {
    if (entry.path().extension() != ".sh") continue;
    ++scripts;
    std::ifstream in(entry.path());
    std::string line;
    for (int number = 1; std::getline(in, line); ++number) {
      INFO(entry.path().string() << ":" << number << ": " << line);
      CHECK_FALSE(std::regex_search(line, kEndsEarly));
    }
  }
  CHECK(scripts > 10);
}
