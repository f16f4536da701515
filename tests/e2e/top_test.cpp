// `ddprun top` as a terminal shows it, with colours: testdata/top/*.txt are what tmux has captured (DDPRUN_UPDATE=1
// rewrites them; read the diff, or show one with cat). And `ddprun status --watch`.
#include <nlohmann/json.hpp>

#include "tests/e2e/hang_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"
#include "tests/support/top_moments.h"

using nlohmann::json;

namespace {

struct ScreenSize {
  int columns, rows;
};

// What the terminal shows of the moment, once top has drawn it: the same twice.
Ended captured(const json& moment, ScreenSize size) {
  const TempFolder folder;
  folder.write("moment.json", moment.dump());
  const std::string script = R"(
tmux="tmux -S $PWD/tmux -f /dev/null -u"
$tmux new-session -d -x $COLUMNS -y $LINES "$DDPRUN top --file moment.json" || exit 1
until [ "$now" = "$before" ] && echo "$now" | grep -q TROUBLE; do
  before=$now
  sleep 0.1
  now=$($tmux capture-pane -p -e)
done
echo "$now"
$tmux kill-server
)";
  return run({"sh", "-c", script}, kLimit,
             {.env = {{"TZ", "UTC"},
                      {"LC_ALL", "C.UTF-8"},
                      {"NO_COLOR", std::nullopt},
                      {"TMUX", std::nullopt},
                      {"DDPRUN", ddprun_program()},
                      {"COLUMNS", std::to_string(size.columns)},
                      {"LINES", std::to_string(size.rows)}},
              .cwd = folder.path()});
}

std::string golden_screen(const std::string& name, const std::string& actual) {
  const fs::path path = fs::path(source_folder()) / "tests/e2e/testdata/top" / name;
  if (std::getenv("DDPRUN_UPDATE")) std::ofstream(path) << actual;
  return read_file(path);
}

const std::vector<std::string> kSteadyJob{programs_folder() + "/hang_worker", "100000"};

}  // namespace

TEST_CASE("top on a terminal of 80 x 24 and one of 200 x 50, with colours", "[top]") {
  if (skipped_if(run({"sh", "-c", "command -v tmux"}, kLimit).code != 0, "there is no tmux")) return;
  const std::pair<const char*, json> moments[] = {
      {"running", running_moment()}, {"still", still_moment()}, {"many", many_moment()}};
  for (const auto& [name, moment] : moments)
    for (const ScreenSize size : {ScreenSize{80, 24}, ScreenSize{200, 50}}) {
      const Ended screen = captured(moment, size);
      CHECK(screen == exited(0));
      const std::string file =
          std::string(name) + "-" + std::to_string(size.columns) + "x" + std::to_string(size.rows) + ".txt";
      INFO(file);
      CHECK(screen.out == golden_screen(file, screen.out));
    }
}

TEST_CASE("status --watch prints block after block without a terminal, and ends with the job", "[status][nodes]") {
  ThreeRanks job(1, {"--rdzv-id=watched"}, kSteadyJob);
  REQUIRE(eventually([] { return run({ddprun_program(), "status", "watched"}, kLimit).code == 0; }, kLimit));
  Command watch({ddprun_program(), "status", "-w", "0.1", "watched"});
  watch.wait_for_output("id: +watched\nstate: +running[\\s\\S]*\n\nid: +watched\nstate: +running", kLimit);
  job.agents[0]->kill(SIGINT);
  const Ended ended = watch.wait_exit(kLimit);
  CHECK(ended == exited(0));
  CHECK_THAT(ended.out, Matches("[\\s\\S]*\n\nid: +watched\nstate: +ended\n[\\s\\S]*"));
  CHECK_FALSE(has(ended.out, "\x1b"));
  CHECK(ended.err.empty());
}

TEST_CASE("status --watch refreshes in place on a terminal until q, and leaves what it showed last",
          "[status][nodes][sanitized]") {
  ThreeRanks job(1, {"--rdzv-id=in-place"}, kSteadyJob);
  REQUIRE(eventually([] { return run({ddprun_program(), "status", "in-place"}, kLimit).code == 0; }, kLimit));
  for (const char* key : {"q", "\x03"}) {
    Command watch({ddprun_program(), "status", "in-place", "--watch=0.1"}, {.terminal = true});
    watch.wait_for_output("\x1b\\[\\?1049h[\\s\\S]*state: +running[\\s\\S]*\x1b\\[H[\\s\\S]*state: +running", kLimit);
    watch.type(key);
    const Ended ended = watch.wait_exit(kLimit);
    CHECK(ended == exited(0));
    const std::string left = ended.out.substr(ended.out.rfind("\x1b[?1049l"));
    CHECK_THAT(left, Matches("[^\n]*id: +in-place\r?\nstate: +running[\\s\\S]*"));
  }
}
