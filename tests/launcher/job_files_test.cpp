// What `ddprun run` writes while a job runs, and what it looks at.
#include <sys/resource.h>

#include <csignal>
#include <vector>

#include "launcher/jobs/output_copy.h"
#include "launcher/jobs/recurring_problem.h"
#include "launcher/jobs/snapshot_copier.h"
#include "tests/support/test.h"

using namespace ddprun::launcher;

TEST_CASE("what fails again and again is told once, and once when it works again", "[jobs]") {
  RecurringProblem problem;
  const auto on = [&](const char* why) { return problem.on(why, "it fails", "it works again"); };
  CHECK(on("").empty());
  CHECK(on("no room") == "it fails: no room.");
  CHECK(on("no room").empty());
  CHECK(on("no folder").empty());
  CHECK(problem.fails());
  CHECK(on("") == "it works again.");
  CHECK(on("").empty());
  CHECK(on("no room") == "it fails: no room.");
}

TEST_CASE("a log without room says what is lost, and goes on with what comes later", "[jobs]") {
  const TempFolder folder;
  const auto path = folder / "log";
  std::vector<std::string> said;
  JobLog log(path, [&](const std::string& sentence) { said.push_back(sentence); });
  log.write("one\n");
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit small{6, limit.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  log.write("second\n");
  log.write("third\n");
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, handler);
  log.write("\n4\n");
  CHECK(test::read_file(path) == "one\nse\n4\n");
  CHECK(said == std::vector<std::string>{
                    "output is lost in the job's log " + path.string() + ", and the job goes on: File too large.",
                    "the job's log " + path.string() + " is written again, without 11 bytes."});
}

TEST_CASE("a link that leads nowhere hides no change of a snapshot", "[jobs]") {
  const TempFolder folder;
  fs::create_directory(folder / "run");
  for (const char* name : {"a", "b", "c"}) fs::create_symlink("nowhere", folder / "run" / name);
  const std::string before = fingerprint(folder / "run");
  folder.write("run/d", "1");
  const std::string after = fingerprint(folder / "run");
  CHECK(after != before);
  folder.write("run/d", "12");
  CHECK(fingerprint(folder / "run") != after);
}
