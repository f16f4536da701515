// Workers that are started by a script, a shell or another program: what they start has the grace to save, too.
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

// Saves in five pieces when it is asked to end. Its child, as of a data loader, ends by it alone.
constexpr const char* kSaves =
    "#!/usr/bin/env python3\n"
    "import os, signal, subprocess, sys, time\n"
    "rank = os.environ['RANK']\n"
    "def save(*_):\n"
    "  for piece in range(5):\n"
    "    with open('saved.' + rank, 'a') as file: file.write(f'{piece}\\n')\n"
    "    time.sleep(0.1)\n"
    "  loader.kill()\n"
    "  os._exit(0)\n"
    "signal.signal(signal.SIGTERM, save)\n"
    "deaf = \"trap 'echo asked > loader.$RANK' TERM; echo > ready.$RANK; while :; do sleep 0.05; done\"\n"
    "loader = subprocess.Popen(['sh', '-c', deaf])\n"
    "while not os.path.exists('ready.' + rank): time.sleep(0.01)\n"
    "print('up ' + rank, flush=True)\n"
    "while True: time.sleep(1)\n";

// A way for each rank. The last one may fail.
constexpr const char* kWays =
    "case $RANK in\n"
    "  0) exec ./saves ;;\n"
    "  1) ./saves; true ;;\n"
    "  2) exec sh -c './saves && true' ;;\n"
    "  3) exec setsid -w ./saves ;;\n"
    "  4) exec sh -c '(sleep 600 & ./saves; true); true' ;;\n"
    "  5) echo up 5; while [ ! -e fail ]; do sleep 0.05; done; exit 3 ;;\n"
    "esac\n";

}  // namespace

TEST_CASE("whatever stops a job, what its workers have started saves, behind whatever program", "[stop]") {
  const std::string how = GENERATE("SIGTERM", "ctl stop", "--max-run", "a failure", "SIGTERM to a shell");
  INFO(how);
  const TempFolder folder;
  folder.write("saves", kSaves, true);
  const std::string max_run = how == "--max-run" ? "--max-run=6s" : "--max-run=600s";
  Command job(job_of({"--nproc-per-node=6", "--max-restarts=0", "--rdzv-id=wrapped", "--stop-grace=60", max_run,
                      "--no-python", "sh", "-c", kWays}),
              {.cwd = folder.path()});
  for (int rank = 0; rank < 6; ++rank) job.wait_for_output("up " + std::to_string(rank), kLimit);
  if (how == "SIGTERM") job.kill(SIGTERM);
  if (how == "ctl stop") CHECK(run({ddprun_program(), "ctl", "wrapped", "stop"}, kLimit) == exited(0));
  if (how == "a failure") folder.write("fail", "");
  if (how == "SIGTERM to a shell") kill(job.wait_for_process("RANK", "1", kLimit), SIGTERM);
  CHECK(job.wait_exit(kLimit).code != 0);
  for (int rank = 0; rank < 5; ++rank) {
    INFO("rank " << rank);
    CHECK(read_file(folder / ("saved." + std::to_string(rank))) == "0\n1\n2\n3\n4\n");
    CHECK_FALSE(fs::exists(folder / ("loader." + std::to_string(rank))));
  }
  CHECK(job.all_gone(kLimit));
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

TEST_CASE("a worker that takes no notice of Ctrl-C gets SIGTERM after half of the grace", "[stop]") {
  Command job(job_of({"--stop-grace=6", "--no-python", "sh", "-c",
                      "trap '' INT; trap 'echo asked; exit 0' TERM; echo up; while :; do sleep 0.05; done"}));
  job.wait_for_output("up", kLimit);
  job.kill(SIGINT);
  CHECK(job.wait_exit(kLimit) == exited(130));
  CHECK(has(job.out(), "asked"));
}
