// --page in a real browser, and report.html.
#include "tests/e2e/programs.h"
#include "tests/support/catch.h"
#include "tests/support/command.h"
#include "tests/support/places.h"

using namespace ddprun::test;
using namespace std::chrono_literals;

TEST_CASE("a browser shows the job, a restart, the loss of its agent, and its report", "[page]") {
  const TempFolder folder;
  const Ended ended = run({venv_python(), source_folder() + "/tests/e2e/page/browse.py", ddprun_program(),
                           programs_folder() + "/hang_worker", folder.path()},
                          600s);
  if (ended.code == 77) {
    WARN(ended.out);
    return;
  }
  CAPTURE(ended.out, ended.err);
  CHECK(ended == exited(0));
}

TEST_CASE("a page without a port for it is refused", "[page]") {
  const Ended ended = run({ddprun_program(), "--page", "--no-python", "true"}, kLimit);
  CHECK(ended.code == 2);
  CHECK(ended.err.find("--page is given without --metrics") != std::string::npos);
}
