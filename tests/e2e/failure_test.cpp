// Failures by class: what ddprun does, with which code it ends, and what it says. docs/failures.md has the table.
#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/test.h"

using Json = nlohmann::json;

namespace {

struct Story {
  std::string what;
  std::string options;  // with "|" between two
  std::string script;   // of each worker; it appends a line to "starts" in each round
  int code;
  int starts;
  std::string kind, sentence;
};

const std::vector<Story> kStories = {
    {"a crash comes again before any progress", "", "kill -SEGV $$", 1, 2, "crash",
     "the same failure twice in a row before any progress"},
    {"an assertion fails", "--max-restarts=0", "kill -ABRT $$", 1, 1, "crash",
     "no restarts are allowed (--max-restarts 0)"},
    {"exit code 1 before the first step", "", "exit 1", 1, 2, "error",
     "the same failure twice in a row before any progress"},
    {"a class with a limit of its own", "--restart-limits=crash=1 in 1h",
     "kill -$(wc -l < starts | sed 's/1/BUS/; s/2/ILL/') $$", 1, 2, "crash",
     "all restarts after crash are used up (1 of 1 in 1 h)"},
    {"exit code 77, of which a rule says stop", "", "exit 77", 93, 1, "error", "the rule at job.toml:1 says stop"},
    {"exit code 78, of which a rule says requeue", "", "exit 78", 75, 1, "error",
     "the rule at job.toml:4 says requeue"},
    {"lines of stderr, of which a rule says restart", "--max-restarts=2", "echo data01: gone >&2; exit 9", 1, 3,
     "error", "all restarts are used up (2 of 2)"},
    {"exit code 73, which says that no restart helps", "", "exit 73", 73, 1, "error",
     "exit code 73 means that a restart would only repeat the same"},
    {"a usage error", "", "echo no option --epochs >&2; exit 2", 93, 1, "usage",
     "exited with code 2, a usage error: no restart."},
    {"a program that cannot be exec'd", "", "", 1, 0, "start", "it could not be started"},
    {"a command that is missing", "--max-restarts=0", "nonsuch-command", 1, 1, "start",
     "the command nonsuch-command is not found"},
    {"a port that is taken", "--max-restarts=0", "echo 'bind: Address already in use' >&2; exit 1", 1, 1, "start",
     "another process has the port"},
    {"memory that runs out in Python, twice", "", "echo MemoryError >&2; exit 1$(wc -l < starts)", 1, 2,
     "out-of-memory", "memory ran out before, and one restart did not help"},
    {"a worker that waits for one that has ended well", "--nproc-per-node=2|--max-restarts=0|--peer-exit-timeout=0.2",
     "[ $RANK = 0 ] || sleep 60; until [ $(wc -l < starts) = 2 ]; do sleep 0.02; done", 1, 2, "hang",
     "no restarts are allowed"},
};

constexpr const char* kRules = R"([[rules]]
exit-code = 77
action = "stop"
[[rules]]
exit-code = 78
action = "requeue"
[[rules]]
stderr = 'data\d+: gone'
action = "restart"
)";

std::vector<std::string> job_of_story(const Story& story, const TempFolder& folder) {
  folder.write("job.toml", kRules);
  folder.write("damaged",
               "\x7f"
               "ELF is not all that a program needs",
               true);
  std::vector<std::string> options = {"--config=job.toml", "--event-log-handler=file:events.json"};
  std::istringstream own(story.options);
  for (std::string option; std::getline(own, option, '|');) options.push_back(option);
  if (!story.script.empty()) return shell_job(options, "echo x >> starts; " + story.script);
  options.push_back("./damaged");
  return job_of(options);
}

// The class in the last event.
std::string class_in_events(const TempFolder& folder) {
  const Words lines = lines_of(read_file(folder / "events.json"));
  REQUIRE_FALSE(lines.empty());
  return Json::parse(lines.back())["metadata"].value("failure_class", "");
}

}  // namespace

TEST_CASE("each class of failure has its action, its exit code and its sentence, in the report and the events",
          "[sanitized]") {
  for (const Story& story : kStories) {
    const TempFolder folder;
    const Ended ended = run(job_of_story(story, folder), kLimit, {.cwd = folder.path()});
    const std::string report = unbroken(ended.err);
    INFO(story.what << "\n" << ended.err);
    CHECK(ended == exited(story.code));
    const std::string starts = read_file(folder / "starts");
    CHECK(std::count(starts.begin(), starts.end(), '\n') == story.starts);
    CHECK(has(report, " class: " + story.kind) == (story.kind != "usage"));  // that one is a single line
    CHECK(has(report, story.sentence));
    CHECK(class_in_events(folder) == story.kind);
  }
}

TEST_CASE("starts that end with the same failure before any progress are three at most, if a folder keeps their count",
          "[sanitized]") {
  const TempFolder folder;
  const auto start = [&](const std::string& script) {
    return run(shell_job({"--rdzv-id=job", "--state-dir=state"}, script), kLimit, {.cwd = folder.path()});
  };
  CHECK(start("exit 1") == exited(1));
  CHECK(start("exit 1") == exited(1));
  const Ended third = start("exit 1");
  CHECK(third == exited(93));
  CHECK(has(unbroken(third.err), "the same failure in 3 starts in a row, before any progress"));
  CHECK(fs::is_empty(folder / "state"));  // whoever starts it again has changed something
  CHECK(start("exit 1") == exited(1));
  CHECK(start("exit 3") == exited(1));
  CHECK(start("exit 1") == exited(1));
  CHECK(start("exit 0") == exited(0));
  CHECK(fs::is_empty(folder / "state"));
}

TEST_CASE("a start after a preemption goes on with the restarts that were left, killed outright or not") {
  const int signal = GENERATE(SIGTERM, SIGKILL);
  const TempFolder folder;
  {
    Command first(shell_job({"--rdzv-id=job", "--state-dir=state", "--max-restarts=1"},
                            "[ $DDPRUN_ROUND = 2 ] || kill -SEGV $$; echo runs; sleep 60"),
                  {.cwd = folder.path()});
    first.wait_for_output("runs", kLimit);
    REQUIRE(eventually([&] { return has(read_file(folder / "state/job.ledger.json"), "\"crashes\": 1"); }, kLimit));
    kill(first.pid(), signal);
    first.wait_exit(kLimit);
  }
  const Ended second = run(shell_job({"--rdzv-id=job", "--state-dir=state", "--max-restarts=1"}, "exit 5"), kLimit,
                           {.cwd = folder.path()});
  CHECK(second == exited(1));
  CHECK(has(unbroken(second.err), "all restarts are used up (1 of 1)"));
}

TEST_CASE("a folder for the ledger that cannot be used is one sentence, a damaged ledger a warning") {
  const TempFolder folder;
  folder.write("file", "");
  const Ended none =
      run(shell_job({"--rdzv-id=job", "--state-dir=file/below"}, "true"), kLimit, {.cwd = folder.path()});
  CHECK(none == exited(2));
  CHECK(has(none.err, "cannot write into the folder file/below (--state-dir): Not a directory."));
  fs::create_directory(folder / "state");
  folder.write("state/job.ledger.json", "{");
  const Ended damaged = run(shell_job({"--rdzv-id=job", "--state-dir=state"}, "true"), kLimit, {.cwd = folder.path()});
  CHECK(damaged == exited(0));
  CHECK(has(damaged.err, "state/job.ledger.json (--state-dir) holds no restart ledger (it is not JSON)"));
}

TEST_CASE("a rule that can never match stops the start, with the line that hides it") {
  const TempFolder folder;
  folder.write("job.toml",
               "[[rules]]\nclass = \"crash\"\naction = \"stop\"\n[[rules]]\nsignal = \"SEGV\"\nclass = "
               "\"crash\"\naction = \"restart\"\n");
  const Ended ended = run(shell_job({"--config=job.toml"}, "true"), kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(2));
  CHECK(has(ended.err, "job.toml:4: this rule can never match: the rule at job.toml:1 takes every failure"));
}

TEST_CASE("a rule about the output of workers that run gives them up when it applies, wherever the output goes",
          "[sanitized]") {
  const std::string options = GENERATE("", "--redirects=3", "--tee=3", "--local-ranks-filter=none");
  const TempFolder folder;
  const auto ended_by = [&](const std::string& rule, const std::string& script) {
    folder.write("job.toml", "[[rules]]\n" + rule + "action = \"stop\"\n");
    std::vector<std::string> all = {"--config=job.toml", "--log-dir=logs"};
    if (!options.empty()) all.push_back(options);
    return run(shell_job(all, script), kLimit, {.cwd = folder.path()});
  };
  const std::string prints_for_ever = "i=0; while :; do i=$((i + 1)); echo step $i loss $LOSS; sleep 0.02; done";
  const Ended nan =
      ended_by("line = 'loss (\\S+)'\nvalue = \"nan\"\nfor = \"300ms\"\n", "LOSS=NaN; " + prints_for_ever);
  INFO(options << nan.err);
  CHECK(nan == exited(93));
  CHECK(has(unbroken(nan.err), "was given up for its output."));
  CHECK(has(unbroken(nan.err), " class: error "));
  CHECK(has(unbroken(nan.err), "the rule at job.toml:1 says stop"));
  const Ended silent = ended_by("silent = \"300ms\"\n", "echo begins; sleep 60");
  CHECK(silent == exited(93));
  CHECK(has(unbroken(silent.err), " class: hang "));
}

TEST_CASE("output that a rule about it does not match lets the workers run") {
  const TempFolder folder;
  folder.write("job.toml",
               "[[rules]]\nline = 'loss (\\S+)'\nvalue = \"> 10\"\nfor = \"100ms\"\naction = \"stop\"\n"
               "[[rules]]\nsilent = \"20s\"\naction = \"stop\"\n");
  const Ended ended =
      run(shell_job({"--config=job.toml"}, "printf 'loss %s\n' 11 9 12 8; sleep 0.3"), kLimit, {.cwd = folder.path()});
  INFO(ended.err);
  CHECK(ended == exited(0));
  CHECK(has(ended.out, "loss 11\nloss 9\nloss 12\nloss 8\n"));
}

TEST_CASE("a pattern that takes too long is told, and the other rules and the output are as without it") {
  const TempFolder folder;
  const std::string slow = " = '(a+)+[bc]'\naction = \"stop\"\n";
  folder.write("job.toml", "[[rules]]\nline" + slow + "[[rules]]\nstderr" + slow +
                               "[[rules]]\nstderr = 'gone'\naction = \"requeue\"\n");
  const std::string line(16'000, 'a');
  folder.write("line", line + "\n");
  const Ended ended = run(
      shell_job({"--config=job.toml"}, "for i in 1 2 3 4 5 6 7 8 9 10; do cat line >&2; done; echo gone >&2; exit 1"),
      kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(75));
  CHECK(has(ended.err, line));
  CHECK(has(ended.err,
            "ddprun: the rule at job.toml:1 takes too long on the workers' lines and is no longer applied; simplify "
            "its pattern '(a+)+[bc]'.\n"));
  CHECK(has(ended.err, "ddprun: the rule at job.toml:4 takes too long on the last lines of rank "));
}

TEST_CASE("a machine that does not pass its health check waits, with the reason, and takes part when it passes",
          "[sanitized]") {
  const TempFolder folder;
  Command job(shell_job({"--health-check=echo first line; echo no memory on GPU 3; test -e passes"}, "echo runs"),
              {.cwd = folder.path()});
  job.wait_for_output("does not pass its health check \\(exited with code 1: no memory on GPU 3\\)", kLimit);
  CHECK_FALSE(has(job.out(), "runs"));
  folder.write("passes", "");
  CHECK(job.wait_exit(kLimit) == exited(0));
  CHECK(has(job.out(), "runs\n"));
}

TEST_CASE("GPUs are counted, and their memory looked at, by NVIDIA's management library where there is one") {
  const auto started = [](std::vector<std::string> options, const std::string& visible) {
    CommandOptions with{.env = {{"LD_LIBRARY_PATH", programs_folder() + "/nvml"}}};
    if (!visible.empty()) with.env["CUDA_VISIBLE_DEVICES"] = visible;
    return run(shell_job(std::move(options), "[ $RANK != 0 ] || echo $WORLD_SIZE"), kLimit, with);
  };
  CHECK(started({"--nproc-per-node=gpu"}, "").out == "3\n");
  CHECK(started({"--nproc-per-node=auto"}, "GPU-2,GPU-0").out == "2\n");
  CHECK(started({"--nproc-per-node=gpu"}, "1,3").out == "1\n");
  CHECK(has(started({"--nproc-per-node=gpu"}, "NoDevFiles").err, "gpu"));
  CHECK(started({"--health-limits=gpu-memory=5%"}, "").out == "1\n");
}

TEST_CASE("a machine is checked before the first round and after each failure there, and not otherwise") {
  const TempFolder folder;
  const Ended ended = run(shell_job({"--nproc-per-node=2", "--health-check=echo x >> checks; sleep 60 & "},
                                    "[ $DDPRUN_ROUND = 2 ] || [ $RANK = 0 ] || exit 3"),
                          kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(0));
  CHECK(read_file(folder / "checks") == "x\nx\n");
}

TEST_CASE("a job that is stopped while its machine is checked ends at once, to be started again") {
  const TempFolder folder;
  Command job(shell_job({"--health-check=touch begun; sleep 60"}, "true"), {.cwd = folder.path()});
  REQUIRE(eventually([&] { return fs::exists(folder / "begun"); }, kLimit));
  kill(job.pid(), SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(75));
}

TEST_CASE("a debugger that its user leaves ends the job, and no traceback is shown") {
  const TempFolder folder;
  folder.write("debugged.py", "import os\nif os.environ['RANK'] == '0': breakpoint()\nimport time\ntime.sleep(600)\n");
  Command job(Words{kDdprun, "--nproc-per-node=2", "--stop-grace=2", "debugged.py"},
              {.cwd = folder.path(), .terminal = true});
  job.wait_for_output("Pdb", kLimit);
  job.type("q\n");
  const Ended ended = job.wait_exit(kLimit);
  INFO(ended.out);
  CHECK(ended == exited(130));
  CHECK(has(ended.out, "ddprun: rank 0's debugger was quit: the job ends.\r\n"));
  CHECK_FALSE(has(ended.out, "restart"));
  CHECK_FALSE(has(ended.out, "BdbQuit"));
}

TEST_CASE("a question that nobody can answer fails the job at once, with its place") {
  const std::string asks = GENERATE("breakpoint()\nx = 1", "input('go on? ')");
  const TempFolder folder;
  folder.write("asks.py", "import os\nif os.environ['RANK'] == '1': " + asks + "\nimport time\ntime.sleep(600)\n");
  const Ended ended = run({kDdprun, "--nproc-per-node=2", "--stop-grace=2", "asks.py"}, kLimit, {.cwd = folder.path()});
  INFO(ended.err);
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "nobody can answer: only rank 0 has ddprun's input"));
  CHECK(has(ended.err, "asks.py:"));
  CHECK_FALSE(has(ended.err, "restart 1"));
}

TEST_CASE("ranks that cannot begin a moment later are told with the first, and one that can does not hold up the end") {
  const TempFolder folder;
  folder.write("late.py",
               "import os, signal, time\n"
               "rank = os.environ['RANK']\n"
               "signal.signal(signal.SIGTERM, lambda *_: (open('asked', 'w').close(), os._exit(0)))\n"
               "open('up' + rank, 'w').close()\n"
               "while not all(os.path.exists('up' + other) for other in '012'): time.sleep(0.01)\n"
               "while rank == os.environ.get('WELL'): time.sleep(1)\n"
               "import nonsuch\n");
  const auto report = [&](const std::optional<std::string>& well, const std::string& grace) {
    for (const char* const file : {"up0", "up1", "up2", "asked"}) fs::remove(folder / file);
    const Ended ended = run({kDdprun, "--nproc-per-node=3", "--stop-grace=" + grace, "late.py"}, kLimit,
                            {.env = {{"WELL", well}}, .cwd = folder.path()});
    CHECK(ended == exited(1));
    return ended.err;
  };
  CHECK(has(report({}, "25"), "all 3 ranks exited with code 1: ModuleNotFoundError"));
  CHECK(has(report("1", "25"), "ranks 0, 2 exited with code 1: ModuleNotFoundError"));
  CHECK(fs::exists(folder / "asked"));
  report("1", "900ms");  // which is shorter than what the others are waited for
  CHECK(fs::exists(folder / "asked"));
}
