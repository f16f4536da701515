// How a job ends that is stopped: who is signalled, how long it may take, its exit code, and what workers receive
// through their channel.
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

// A Python worker that uses its channel.
std::vector<std::string> channel_job(const Words& options, const std::string& script) {
  const std::string attached =
      "import os, signal, sys, time\n"
      "sys.path.insert(0, '" +
      source_folder() +
      "/rendezvous/channel')\n"
      "import worker_channel as channel\n"
      "def say(*words): os.write(1, (' '.join(map(str, words)) + '\\n').encode())\n"
      "channel.attach()\n"
      "rank = int(os.environ['RANK'])\n";
  return joined({{kDdprun}, options, {"--no-python", "python3", "-c", attached + script}});
}

// Trains forever, a step every few milliseconds; does what the agent asks.
const std::string kObedient =
    "signal.signal(signal.SIGTERM, lambda *_: None)\n"
    "step = 0\n"
    "while True:\n"
    "  channel.step(step)\n"
    "  if step == 3: say('up', rank)\n"
    "  asked = channel.request()\n"
    "  if asked == channel.LEAVE: say('leaves', rank); sys.exit(0)\n"
    "  if asked is not None and step >= asked.step:\n"
    "    say('saves', rank, 'at', asked.step); channel.snapshot(step); sys.exit(0)\n"
    "  step += 1\n"
    "  time.sleep(0.005)\n";

void wait_until_up(Command& job, int workers) {
  for (int rank = 0; rank < workers; ++rank) job.wait_for_output("up " + std::to_string(rank), kLimit);
}

// Signalled once all workers are up.
Ended stopped(std::vector<std::string> words, int workers, int signal = SIGTERM) {
  Command job(std::move(words));
  wait_until_up(job, workers);
  job.kill(signal);
  return job.wait_exit(kLimit);
}

// Both ranks have saved at the same step.
void check_saved_together(const std::string& out) {
  std::smatch step;
  REQUIRE(std::regex_search(out, step, std::regex("saves 0 at (\\d+)\n")));
  CHECK(has(out, "saves 1 at " + step.str(1) + "\n"));
}

}  // namespace

TEST_CASE("preempted, all ranks save at one step and the job is to be requeued", "[fast]") {
  const Ended ended = stopped(channel_job({"--nproc_per_node=2"}, kObedient), 2);
  CHECK(ended == exited(75));
  check_saved_together(ended.out);
}

TEST_CASE("a job whose workers had done everything when they were stopped has succeeded, one that only left has not") {
  const auto stopped_in = [](const std::string& phase, const std::string& last_exit) {
    return stopped(channel_job({"--nproc_per_node=2"},
                               "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
                               "channel.step(7); channel.phase(channel." +
                                   phase +
                                   "); say('up', rank)\n"
                                   "signal.sigwait([signal.SIGTERM])\n"
                                   "say('done'); sys.exit(" +
                                   last_exit + " if rank == 1 else 0)\n"),
                   2);
  };
  CHECK(stopped_in("FINISHING", "0") == exited(0));
  CHECK(stopped_in("FINISHING", "1") == exited(143));
  CHECK(stopped_in("TRAINING", "0") == exited(143));
}

TEST_CASE("a rank that did not save makes the exit code say so") {
  const std::string only_0_saves = "if rank == 1:\n  channel.step(1); say('up', 1); time.sleep(60)\n" + kObedient;
  CHECK(stopped(channel_job({"--nproc_per_node=2"}, only_0_saves), 2) == exited(143));
}

// Trains as kObedient does, but a preemption's signal is the channel's matter.
const std::string kPreemptible = "channel.handle_signals()\n" + kObedient.substr(kObedient.find("step = 0"));

TEST_CASE("a preemption's signal to one rank alone, or to all processes in any order, makes all save", "[fast]") {
  const std::string order = GENERATE("rank", "ranks, then ddprun", "ddprun, then ranks", "over and over");
  const int signal = GENERATE(SIGTERM, SIGUSR1);
  CAPTURE(order, signal);
  Command job(channel_job({"--nproc_per_node=2", "--preempt-signal=USR1"}, kPreemptible));
  wait_until_up(job, 2);
  const pid_t ranks[] = {job.wait_for_process("RANK", "0", kLimit), job.wait_for_process("RANK", "1", kLimit)};
  if (order == "ddprun, then ranks") job.kill(signal);
  ::kill(ranks[1], signal);
  if (order != "rank") ::kill(ranks[0], signal);
  if (order == "ranks, then ddprun") job.kill(signal);
  if (order == "over and over")
    for (int i = 0; i < 20; ++i) ::kill(ranks[i % 2], signal), job.kill(signal);
  const Ended ended = job.wait_exit(kLimit);
  CAPTURE(ended.err);
  CHECK(ended == exited(75));
  check_saved_together(ended.out);
  if (order == "rank") CHECK(has(ended.err, "rank 1 got SIG"));
}

// Saves on SIGTERM and says so by its exit code; rank 1 also when it gets SIGUSR2, as if it had read a spot notice.
const std::string kSaysByCode =
    "trap 'echo saved $RANK; exit 31' TERM; [ $RANK = 1 ] && trap 'echo saved 1; exit 31' USR2; "
    "echo up $RANK; while :; do sleep 0.02; done";

TEST_CASE("workers without a channel say by their exit code that they have saved", "[fast]") {
  const auto stopped_with = [](const std::string& code, const std::string& script) {
    return stopped(shell_job({"--nproc_per_node=2", "--preempt-exit-code=" + code}, script), 2);
  };
  CHECK(stopped_with("31", kSaysByCode) == exited(75));
  CHECK(stopped_with("32", kSaysByCode) == exited(143));
  const std::string one_leaves = "trap \"exit $((31 * (1 - RANK)))\" TERM; echo up $RANK; while :; do sleep 0.02; done";
  const Ended ended = stopped_with("31", one_leaves);
  CHECK(ended == exited(143));
  CHECK(has(ended.err, "ddprun: rank 1 did not exit with code 31 (--preempt-exit-code): steps may be lost.\n"));
}

TEST_CASE("a worker that exits with --preempt-exit-code by itself is a notice, and no failure", "[fast]") {
  Command job(shell_job({"--nproc_per_node=3", "--preempt-exit-code=31"}, kSaysByCode));
  wait_until_up(job, 3);
  ::kill(job.wait_for_process("RANK", "1", kLimit), SIGUSR2);
  const Ended ended = job.wait_exit(kLimit);
  CAPTURE(ended.err);
  CHECK(ended == exited(75));
  CHECK(has(ended.err, "rank 1 exited with code 31: it is preempted, and has saved (--preempt-exit-code)."));
  CHECK_FALSE(has(ended.err, "failed"));
  for (const char* saved : {"saved 0", "saved 1", "saved 2"}) CHECK(has(ended.out, saved));
}

TEST_CASE("a worker that fails because its peer is preempted, and is found with it, is no failure either") {
  const TempFolder folder;
  Command job(shell_job({"--nproc_per_node=2", "--preempt-exit-code=31"},
                        "echo up $RANK; while [ ! -e go ]; do sleep 0.02; done; exit $((1 + 30 * RANK))"),
              {.cwd = folder.path()});
  wait_until_up(job, 2);
  const pid_t ranks[] = {job.wait_for_process("RANK", "0", kLimit), job.wait_for_process("RANK", "1", kLimit)};
  pid_t agent = 0;
  for (const Process& process : job.processes("RANK", "0"))
    if (process.pid == ranks[0]) agent = process.parent;
  REQUIRE(::kill(agent, SIGSTOP) == 0);  // so that it finds both at once
  folder.write("go", "");
  const auto is_zombie = [](pid_t pid) { return has(read_file("/proc/" + std::to_string(pid) + "/stat"), ") Z "); };
  REQUIRE(eventually([&] { return is_zombie(ranks[0]) && is_zombie(ranks[1]); }, kLimit));
  ::kill(agent, SIGCONT);
  const Ended ended = job.wait_exit(kLimit);
  CHECK(ended == exited(143));  // rank 0 has not saved
  CHECK(has(ended.err, "rank 1 exited with code 31"));
  CHECK_FALSE(has(ended.err, "failed"));
}

TEST_CASE("option --exit-on-preempt gives every preemption one exit code, and nothing else") {
  const auto stopped_with = [](const Words& options, const std::string& script, int signal,
                               const std::string& grace = "0.5") {
    return stopped(channel_job(joined({options, {"--stop-grace=" + grace}}), script), 1, signal);
  };
  const std::string loses =
      "channel.phase(channel.TRAINING); channel.step(1); channel.step(2); say('up', rank); time.sleep(60)\n";
  const std::string finished =
      "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])\n"
      "channel.step(7); channel.phase(channel.FINISHING); say('up', rank)\n"
      "signal.sigwait([signal.SIGTERM])\n";
  const Ended lost = stopped_with({"--exit-on-preempt=75"}, loses, SIGTERM);
  CHECK(lost == exited(75));
  CHECK(has(lost.err, "2 steps are lost: no snapshot was written in this round."));
  CHECK(stopped_with({"--exit-on-preempt=75", "--preempt-signal=USR1"}, loses, SIGUSR1) == exited(75));
  CHECK(stopped_with({"--exit-on-preempt=143"}, kObedient, SIGTERM) == exited(143));
  CHECK(stopped_with({"--exit-on-preempt=143"}, finished, SIGTERM, "20") == exited(0));
  CHECK(stopped_with({"--exit-on-preempt=75"}, loses, SIGINT) == exited(130));
  CHECK(stopped_with({"--exit-on-preempt=75"}, loses, SIGHUP) == exited(129));
  CHECK(stopped_with({"--exit-on-preempt=75", "--exit-code=torchrun"}, loses, SIGTERM) == exited(75));
  CHECK(stopped_with({"--exit-code=torchrun"}, loses, SIGTERM) == exited(1));
  CHECK(stopped_with({"--exit-on-preempt=75", "--exit-code=worker"}, loses, SIGTERM) == exited(75));
  CHECK(run(shell_job({"--max-run=3", "--exit-on-preempt=75"}, "while :; do sleep 0.02; done"), kLimit) == exited(75));
  CHECK(run(shell_job({"--max-restarts=0", "--exit-on-preempt=75"}, "exit 3"), kLimit) == exited(1));
}

TEST_CASE("a file or a command tells of a preemption, and the job leaves as with SIGTERM", "[fast]") {
  const TempFolder folder;
  const std::string notice = folder / "preempted";
  const bool file = GENERATE(true, false);
  const std::string probe = (file ? "" : "test -e ") + notice;
  Command job(channel_job({"--nproc_per_node=2", "--preemption-probe=" + probe}, kObedient), {.cwd = folder.path()});
  wait_until_up(job, 2);
  folder.write("preempted", "");
  const Ended ended = job.wait_exit(kLimit);
  CAPTURE(ended.err);
  CHECK(ended == exited(75));
  CHECK(has(ended.out, "saves 0"));
  CHECK(has(ended.err, "ddprun: " + (file ? notice + " exists" : "the preemption probe '" + probe + "' exited with 0") +
                           ": this machine is being preempted (--preemption-probe)."));
  CHECK(job.all_gone(10s));
}

TEST_CASE("a probe that hangs outlives neither the job nor a round, and its output is not shown", "[sanitized]") {
  Command job(shell_job({"--preemption-probe=echo shown; sleep 600 & sleep 600"},
                        "[ $DDPRUN_ROUND = 2 ] && echo done && exit 0; echo up $RANK; read -r line; exit 3"),
              {.input = "\n"});
  CHECK(job.wait_exit(kLimit) == exited(0));
  CHECK(job.all_gone(10s));
  CHECK_FALSE(has(job.out() + job.err(), "shown"));
}

TEST_CASE("a save that the grace cuts is said, with the snapshot that stands", "[sanitized]") {
  const auto cut = [](const std::string& before) {
    const std::string saves_for_ever = "channel.handle_signals(); channel.phase(channel.TRAINING)\n" + before +
                                       "say('up', rank)\n"
                                       "while channel.request() is None: time.sleep(0.005)\n"
                                       "channel.phase(channel.SAVING); time.sleep(60)\n";
    const Ended ended = stopped(channel_job({"--stop-grace=3"}, saves_for_ever), 1);
    CHECK(ended == exited(143));
    return ended.err;
  };
  CHECK(has(cut("channel.snapshot(4); channel.step(5); channel.step(6)\n"),
            "ddprun: 2 steps are lost: the last snapshot holds step 4; the requested one was not complete when the "
            "3 s of --stop-grace were over."));
  CHECK(
      has(cut("channel.step(101); channel.step(102)\n"),
          "ddprun: 2 steps are lost: no snapshot was written in this round, which went on from step 100; the requested "
          "one was not complete when the 3 s of --stop-grace were over."));
}

TEST_CASE("stopped before the first step nothing is lost, and what is lost is said") {
  const auto stopped_after = [](const std::string& script) {
    return stopped(channel_job({"--stop-grace=0.5"}, script + "say('up', rank); time.sleep(60)\n"), 1);
  };
  CHECK(stopped_after("") == exited(75));
  CHECK(stopped_after("channel.phase(channel.LOADING)\n") == exited(75));
  CHECK(stopped_after("channel.phase(channel.TRAINING); channel.step(7); channel.snapshot(7)\n") == exited(75));
  const Ended lost =
      stopped_after("channel.phase(channel.TRAINING); channel.snapshot(4); channel.step(5); channel.step(6)\n");
  CHECK(lost == exited(143));
  CHECK(has(lost.err, "2 steps are lost: the last snapshot holds step 4, and the requested one was not written."));
  const Ended never = stopped_after("signal.signal(signal.SIGTERM, lambda *_: time.sleep(60)); channel.step(1)\n");
  CHECK(never == exited(143));
  CHECK(has(never.err, "1 step is lost: no snapshot was written in this round."));
}

TEST_CASE("stopped before it attached, a program that names the channel has lost nothing, another one may have") {
  const TempFolder folder;
  const auto stopped = [&](const std::string& name, const std::string& script) {
    std::ofstream(folder / name) << script;
    Command job({kDdprun, folder / name}, {.cwd = folder.path()});
    job.wait_for_output("up", kLimit);
    job.kill(SIGTERM);
    return job.wait_exit(kLimit);
  };
  const std::string waits = "import time; print('up', flush=True); time.sleep(60)\n";
  CHECK(stopped("with.py", waits + "import worker_channel\n") == exited(75));
  CHECK(stopped("without.py", waits) == exited(143));
}

TEST_CASE("workers survive ddprun's own SIGTERM to save, also where ddprun does not handle that signal") {
  const Words options{"--nproc_per_node=2", "--signals-to-handle=SIGINT", "--preempt-signal=USR1"};
  const Ended ended = stopped(channel_job(options, kPreemptible), 2, SIGUSR1);
  CHECK(ended == exited(75));
  CHECK(has(ended.err, "SIGUSR1"));
}

TEST_CASE("while nodes are awaited nothing can be lost") {
  Command job({kDdprun, "--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:" + std::to_string(free_port()),
               "true"});
  job.wait_for_output("1 of 2 nodes", kLimit);
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(75));
}

TEST_CASE("steps told through the channel are progress: the same failure again is no broken script") {
  const auto failing = [](const std::string& before) {
    return run(channel_job({"--max-restarts=2"}, before + "say('round', os.environ['DDPRUN_ROUND']); sys.exit(3)\n"),
               kLimit);
  };
  CHECK(has(failing("channel.step(1)\n").err, "all restarts are used up (2 of 2)"));
  CHECK(has(failing("").err, "the same failure twice"));
}

TEST_CASE("while workers use their grace, people are told whom we wait for and how long") {
  Command job(shell_job({"--nproc_per_node=2", "--stop-grace=60"},
                        "if [ $RANK = 1 ]; then trap '' TERM; fi; echo up $RANK; while :; do sleep 0.05; done"));
  wait_until_up(job, 2);
  job.kill(SIGTERM);
  job.wait_for_output("SIGTERM: stopping", kLimit);
  job.kill(SIGTERM);                                                                     // as schedulers repeat it
  job.wait_for_output("waiting for rank 1 to leave; SIGKILL in [1-5]?[0-9] s", kLimit);  // of the 60
  job.kill(SIGINT);                                                                      // now
  const Ended ended = job.wait_exit(5s);
  CHECK(ended == exited(143));
  CHECK(has(ended.err, "SIGKILL in 60 s"));
}

TEST_CASE("a worker that sleeps in the kernel ends the job after TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT",
          "[release-only]") {
  const Ended ended = run(
      job_of({"--stop-grace=0.1", "--no-python", programs_folder() + "/channel_worker", "0", "sleep-uninterruptibly"}),
      kLimit, {.env = {{"TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT", "0.2"}}});
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "rank 0 is stuck in the kernel, where no signal reaches it"));
  CHECK(has(ended.err, "new workers would wait for the same device or file server"));
}

// Rank 1 becomes another user's, so that our SIGKILL is refused, as if a driver blocked it. Rank 0 fails after that.
TEST_CASE("a worker that survives SIGKILL keeps its node out of rounds, with a sentence, until it is gone") {
  if (skipped_if(geteuid() != 0, "it needs to be root")) return;
  const TempFolder folder;
  fs::copy_file("/usr/bin/setpriv", folder / "become");
  fs::permissions(folder.path(), fs::perms(0755));
  fs::permissions(folder / "become", fs::perms(04755));
  fs::permissions(folder.write("one", ""), fs::perms(0666));
  Command job({"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", kDdprun, "--nproc_per_node=2",
               "--stop-grace=0.1", "sh", "-c",
               "echo up $DDPRUN_ROUND/$RANK; [ $DDPRUN_ROUND = 2 ] && exit 0; "
               "[ $RANK = 1 ] && echo $$ > one && exec ./become --reuid=0 sleep 600; "
               "until grep -qs '^Uid:.0' /proc/$(cat one)/status; do sleep 0.05; done; exit 3"},
              {.cwd = folder.path()});
  const std::string pid =
      job.wait_for_output("rank 1 \\(process (\\d+)\\) is still there after SIGKILL", 2 * kLimit).at(1);
  CHECK_FALSE(has(job.out(), "up 2/"));
  kill(std::stoi(pid), SIGKILL);
  CHECK(job.wait_exit(kLimit) == exited(0));
  CHECK(has(job.out(), "up 2/0"));
}

TEST_CASE("option --max-run ends the job politely", "[fast]") {
  const Ended ended =
      run(shell_job({"--max-run=3"}, "trap 'echo bye; exit 0' TERM; while :; do sleep 0.02; done"), kLimit);
  CHECK(ended == exited(143));
  CHECK(has(ended.out, "bye"));
  CHECK(has(ended.err, "the job has run for 3 s, the limit of --max-run"));
}

TEST_CASE(
    "the polite signal goes to the rank, and to its whole group where a shell or --stop-scope=group asks for it") {
  const std::string child =
      "trap : TERM; python3 -c 'import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: "
      "(print(\"child told\", flush=True), os._exit(0))); print(\"up 0\", flush=True); time.sleep(3)' & wait; wait";
  const auto told = [&](std::vector<std::string> options) {
    Command job(shell_job(std::move(options), child));
    job.wait_for_output("up 0", kLimit);
    job.kill(SIGTERM);
    return has(job.wait_exit(kLimit).out, "child told");
  };
  CHECK(told({}));
  CHECK(told({"--stop-scope=group"}));
  CHECK_FALSE(told({"--stop-scope=rank"}));
}

TEST_CASE("option --signals-to-handle replaces the signals that end the job, the others pass through") {
  Command job(shell_job({"--signals-to-handle=SIGTERM"},
                        "trap 'echo interrupted' INT; echo up 0; while :; do sleep 0.02; done"));
  wait_until_up(job, 1);
  job.kill(SIGINT);
  job.wait_for_output("interrupted", kLimit);
  job.kill(SIGTERM);
  CHECK(job.wait_exit(kLimit) == exited(143));
}

TEST_CASE("the exit code is torchrun's or the worker's own where that is asked for") {
  const auto code = [](const std::string& choice, const std::string& script) {
    return run(shell_job({"--max-restarts=0", "--exit-code=" + choice}, script), kLimit).code;
  };
  CHECK(code("ddprun", "exit 7") == 1);
  CHECK(code("worker", "exit 7") == 7);
  CHECK(code("worker", "kill -9 $$") == 137);
  CHECK(code("torchrun", "exit 7") == 1);
  CHECK(code("torchrun", "exit 0") == 0);
  CHECK(run({kDdprun, "--exit-code=torchrun", "--nproc-per-node=0", "true"}, kLimit) == exited(2));
}

TEST_CASE("workers may open as many files as the hard limit allows") {
  const Ended ended =
      run({"bash", "-c", "ulimit -Sn 256; exec " + kDdprun + " bash -c 'ulimit -Sn; ulimit -Hn'"}, kLimit);
  std::istringstream limits(ended.out);
  std::string soft, hard;
  limits >> soft >> hard;
  CHECK(soft == hard);
}
