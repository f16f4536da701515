// Workers that are started by a script, a shell or another program: what they start has the grace to save, too.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

// Saves in five pieces when it is asked to end, and prints each; it would be cut by a second signal. Its child, as of a
// data loader, ends by it alone.
constexpr const char* kSaves =
    "#!/usr/bin/env python3\n"
    "import os, signal, subprocess, sys, time\n"
    "rank = os.environ['RANK']\n"
    "def end(*_): raise SystemExit\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "signal.signal(signal.SIGINT, end)\n"
    "deaf = \"trap '' INT; trap 'echo asked > loader.$RANK' TERM; echo > ready.$RANK; while :; do sleep 0.05; done\"\n"
    "loader = subprocess.Popen(['sh', '-c', deaf])\n"
    "while not os.path.exists('ready.' + rank): time.sleep(0.01)\n"
    "try:\n"
    "  print('up ' + rank, flush=True)\n"
    "  while True: time.sleep(1)\n"
    "except SystemExit:\n"
    "  for piece in range(5):\n"
    "    with open('saved.' + rank, 'a') as file: file.write(f'{piece}\\n')\n"
    "    print('saving', piece, flush=True)\n"
    "    time.sleep(0.1)\n"
    "loader.kill()\n";

// A way for each rank. The last one may fail.
constexpr const char* kWays =
    "case $RANK in\n"
    "  0) exec ./saves ;;\n"
    "  1) ./saves; true ;;\n"
    "  2) exec sh -c './saves && true' ;;\n"
    "  3) exec setsid -w nice env A=1 ./saves ;;\n"
    "  4) exec sh -c '(env --default-signal=INT sleep 600 & ./saves; true); true' ;;\n"
    "  5) exec sh -c 'time ./saves; true' ;;\n"
    "  6) exec timeout 600 ./saves ;;\n"
    "  7) exec sh -c 'timeout 600 sh -c \"./saves && true\"; true' ;;\n"
    "  8) ./saves 2>&1 | tee log.8 | cat ;;\n"
    "  9) echo up 9; while [ ! -e fail ]; do sleep 0.05; done; exit 3 ;;\n"
    "esac\n";
constexpr int kWaysToSave = 9;

// Also its commands in other processes find its record.
CommandOptions desk_in(const TempFolder& folder, bool terminal = false) {
  return {.env = {{"XDG_STATE_HOME", folder / "state"}}, .cwd = folder.path(), .terminal = terminal};
}

}  // namespace

TEST_CASE("whatever stops a job, what its workers have started saves, behind whatever program", "[stop]") {
  const auto& [how, code] = GENERATE(table<std::string, int>({{"SIGTERM", 143},
                                                              {"Ctrl-C, typed", 130},
                                                              {"SIGINT", 130},
                                                              {"--max-run", 143},
                                                              {"ctl stop", 143},
                                                              {"cancel", 143},
                                                              {"a failure", 1},
                                                              {"SIGTERM to a shell", 1}}));
  INFO(how);
  const TempFolder folder;
  folder.write("saves", kSaves, true);
  folder.write("ways.sh", kWays);
  folder.write("wrapped.toml", "nproc_per_node = 10\nmax-restarts = 0\nstop-grace = 60\ncommand = 'sh ways.sh'\n");
  const std::string max_run = how == "--max-run" ? "--max-run=8s" : "--max-run=600s";
  const Words words = how == "cancel" ? Words{"run", "wrapped.toml"}
                                      : Words{"--nproc-per-node=10",
                                              "--max-restarts=0",
                                              "--rdzv-id=wrapped",
                                              "--stop-grace=60",
                                              max_run,
                                              "--no-python",
                                              "sh",
                                              "ways.sh"};
  Command job(job_of(words), desk_in(folder, how == "Ctrl-C, typed"));
  for (int rank = 0; rank <= kWaysToSave; ++rank) job.wait_for_output("up " + std::to_string(rank), kLimit);
  if (how == "SIGTERM") job.kill(SIGTERM);
  if (how == "Ctrl-C, typed") job.type("\x03");
  if (how == "SIGINT") job.kill(SIGINT);
  if (how == "ctl stop") CHECK(run({ddprun_program(), "ctl", "wrapped", "stop"}, kLimit) == exited(0));
  if (how == "cancel")
    CHECK(eventually([&] { return run(job_of({"cancel", "wrapped"}), kLimit, desk_in(folder)) == exited(0); }, kLimit));
  if (how == "a failure") folder.write("fail", "");
  if (how == "SIGTERM to a shell") kill(job.wait_for_process("RANK", "1", kLimit), SIGTERM);
  const Ended ended = job.wait_exit(kLimit);
  INFO(ended);
  CHECK(ended.code == code);
  for (int rank = 0; rank < kWaysToSave; ++rank) {
    INFO("rank " << rank);
    CHECK(read_file(folder / ("saved." + std::to_string(rank))) == "0\n1\n2\n3\n4\n");
    CHECK_FALSE(fs::exists(folder / ("loader." + std::to_string(rank))));
  }
  CHECK(has(read_file(folder / "log.8"), "saving 4\n"));
  CHECK(job.all_gone(kLimit));
}

// A single worker is in the terminal's foreground: Ctrl-C reaches all that has not left its group.
TEST_CASE("what leaves the group of a terminal's foreground gets Ctrl-C all the same", "[stop]") {
  const std::string way = GENERATE("exec setsid -w ./saves", "timeout 600 ./saves; true", "./saves && true");
  INFO(way);
  const TempFolder folder;
  folder.write("saves", kSaves, true);
  Command job(job_of({"--stop-grace=60", "--no-python", "sh", "-c", way}), desk_in(folder, /*terminal=*/true));
  job.wait_for_output("up 0", kLimit);
  job.type("\x03");
  CHECK(job.wait_exit(kLimit) == exited(130));  // SIGTERM would follow after 30 s
  CHECK(read_file(folder / "saved.0") == "0\n1\n2\n3\n4\n");
}

TEST_CASE("the outcome of a rank behind a shell is that of its program, whoever the signal reaches", "[stop][fast]") {
  const bool to_shell = GENERATE(false, true);
  Command job(job_of({"--nproc-per-node=2", "--stop-grace=60", "--no-python", "sh", "-c", "\"$0\"; true",
                      programs_folder() + "/step_worker"}));
  for (const char* const rank : {"up 0", "up 1"}) job.wait_for_output(rank, kLimit);
  if (to_shell)
    kill(job.wait_for_process("RANK", "1", kLimit), SIGTERM);
  else
    job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(75));
  for (const char* const rank : {"rank 0 saves", "rank 1 saves"}) CHECK(has(job.out(), rank));
}

TEST_CASE("what a worker leaves that ends by itself is killed, and what ignores SIGTERM at the end of the grace",
          "[stop]") {
  Command ends(job_of({"--no-python", "sh", "-c", "sleep 600 & exit 0"}));
  CHECK(ends.wait_exit(kLimit) == exited(0));
  CHECK(ends.all_gone(kLimit));
  Command ignores(job_of({"--stop-grace=1", "--no-python", "sh", "-c",
                          "sh -c 'trap \"\" TERM; echo up; while :; do sleep 0.1; done'; true"}));
  ignores.wait_for_output("up", kLimit);
  ignores.kill(SIGTERM);
  CHECK(ignores.wait_exit(kLimit) == exited(143));
  CHECK(ignores.all_gone(kLimit));
}

TEST_CASE("Ctrl-C is one SIGINT, from a terminal or by kill, and a program ends as its author expects", "[stop]") {
  constexpr const char* kScript =
      "import atexit, os, time\n"
      "say = lambda word: os.write(1, f'{word} {os.environ[\"RANK\"]}\\n'.encode())\n"
      "atexit.register(say, 'ends')\n"
      "try:\n"
      "  say('up')\n"
      "  time.sleep(600)\n"
      "except KeyboardInterrupt:\n"
      "  time.sleep(0.3)\n"
      "  say('saved')\n"
      "finally: say('finally')\n";
  const int workers = GENERATE(1, 2);
  const bool typed = GENERATE(false, true), wrapped = GENERATE(false, true);
  CAPTURE(workers, typed, wrapped);
  const TempFolder folder;
  folder.write("script.py", kScript);
  Words words{"--nproc-per-node=" + std::to_string(workers), "--stop-grace=60"};
  if (wrapped)
    words = joined({words, {"--no-python", "sh", "-c", "python3 -u script.py; echo after"}});
  else
    words.push_back("script.py");
  Command job(job_of(words), {.cwd = folder.path(), .terminal = typed});
  for (int rank = 0; rank < workers; ++rank) job.wait_for_output("up " + std::to_string(rank), kLimit);
  if (typed)
    job.type("\x03");
  else
    job.kill(SIGINT);
  const Ended ended = job.wait_exit(kLimit);
  INFO(ended.out);
  CHECK(ended == exited(130));
  for (int rank = 0; rank < workers; ++rank)
    for (const char* const word : {"saved ", "finally ", "ends "})
      CHECK(count(ended.out, word + std::to_string(rank)) == 1);
}

// Its memory takes a while to free: its death is detected before that by the channel.
TEST_CASE("a worker that Ctrl-C ends before ddprun hears of the key has not failed", "[stop]") {
  const std::string attached = "import signal, sys, time; sys.path.insert(0, '" + source_folder() +
                               "/rendezvous/channel'); import worker_channel; worker_channel.attach(); "
                               "signal.signal(signal.SIGINT, signal.SIG_DFL); "
                               "large = b'x' * (256 << 20); print('up 0', flush=True); time.sleep(60)";
  Command job(job_of({"--max-restarts=0", "--no-python", "python3", "-c", attached}), {.terminal = true});
  job.wait_for_output("up 0", kLimit);
  job.kill(SIGSTOP);  // the keeper, which passes the signal on
  job.type("\x03");
  job.wait_for_output("SIGINT: stopping|the job failed", kLimit);
  job.kill(SIGCONT);
  CHECK(job.wait_exit(kLimit) == exited(130));
  CHECK_FALSE(has(job.out(), "failed"));
}

TEST_CASE("a worker that takes no notice of Ctrl-C gets SIGTERM after half of the grace", "[stop]") {
  Command job(job_of({"--stop-grace=6", "--no-python", "sh", "-c",
                      "trap '' INT; trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"}));
  job.wait_for_output("up", kLimit);
  job.kill(SIGINT);
  CHECK(job.wait_exit(kLimit) == exited(130));
  CHECK(has(job.out(), "asked"));
}
