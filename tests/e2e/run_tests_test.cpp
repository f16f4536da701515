// scripts/run_tests.sh over a build folder made for the test.
#include "tests/support/test.h"

namespace {
// `tests`: names, and what the shell does for each, in an empty folder.
Ended run_tests(const std::vector<std::pair<std::string, std::string>>& tests,
                const std::vector<std::string>& options = {}) {
  const TempFolder folder;
  std::string text;
  for (const auto& [name, script] : tests) text.append("add_test(\"" + name + "\" sh -c [=[" + script + "]=])\n");
  folder.write("CTestTestfile.cmake", text);
  std::vector<std::string> words{source_folder() + "/scripts/run_tests.sh", folder.path().string()};
  words.insert(words.end(), options.begin(), options.end());
  return run(words, 60s);
}

const std::string kSayCheck = "echo; echo 'a_test.cpp:7: FAILED:'; echo '  CHECK( 1 == 2 )'; ";
const std::string kFailsOnce = kSayCheck + "test -e again || { touch again; exit 1; }";
}  // namespace

TEST_CASE("tests that fail beside the others run again, alone, and are named at the end", "[harness]") {
  const Ended ended = run_tests({{"e2e/fine", "true"}, {"unit/once", kFailsOnce}}, {"-j4"});
  CHECK(ended == exited(0));
  CHECK(
      ended.out.ends_with("These failed:\n  unit/once\n    a_test.cpp:7: FAILED:\n      CHECK( 1 == 2 )\n"
                          "Each passed when it ran again, alone. Mend them, too.\n"));

  const Ended twice = run_tests(
      {{"e2e/fine", "true"}, {"unit/once", kFailsOnce}, {"tsan/e2e/ends", "echo a; echo b; echo c; kill -9 $$"}});
  CHECK(twice.code == 8);
  CHECK(twice.out.ends_with("These failed:\n  tsan/e2e/ends\n    b\n    c\n"));
}

TEST_CASE("a test in which chance plays no part, and what a sanitizer finds, get no second try", "[harness]") {
  CHECK(run_tests({{"simulation/once", kFailsOnce}}).code == 8);
  CHECK(run_tests({{"fuzz/once", kFailsOnce}}).code == 8);
  CHECK(run_tests({{"tsan/unit/once", "echo 'WARNING: ThreadSanitizer: data race'; " + kFailsOnce}}).code == 8);
  CHECK(run_tests({{"e2e/once", kFailsOnce}}, {"--repeat", "until-fail:2"}).code == 8);
  CHECK(run_tests({{"e2e/once", kFailsOnce}}, {"-R", "unit"}).code != 0);  // no test at all
  CHECK(run_tests({{"e2e/once", "for i in $(seq 9000); do " + kSayCheck + "done; " + kFailsOnce}}) == exited(0));

  std::vector<std::pair<std::string, std::string>> many;
  for (const std::string number : {"1", "2", "3", "4", "5", "6"})
    many.emplace_back("e2e/" + number, "mkdir -p " + number + "; cd " + number + "; " + kFailsOnce);
  CHECK(run_tests(many).code == 8);
  many.pop_back();
  CHECK(run_tests(many) == exited(0));
}
