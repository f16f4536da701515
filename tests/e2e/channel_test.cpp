// Early detection of a death, with the real ddprun: that of a large process at once, and no living process is reported.
#include <poll.h>
#include <sys/syscall.h>

#include "rendezvous/base/fd.h"
#include "tests/e2e/programs.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLargeLimit = 60s;  // to fill gigabytes on a busy machine
const std::string kWorkerInC = programs_folder() + "/channel_worker";
const std::string kWorkerInPython =
    "python3 " + source_folder() + "/tests/agent/channel/channel_worker.py " + source_folder() + "/rendezvous/channel";
// Prints when it was told to stop, by the clock that the test uses, too.
const std::string kSurvivor =
    "python3 -c 'import os, signal, sys, time\n"
    "def stop(*_):\n"
    "  now = time.monotonic_ns()\n"
    "  print(\"stopped at\", now, flush=True)\n"
    "  os._exit(0)\n"
    "signal.signal(signal.SIGTERM, stop)\n"
    "signal.signal(signal.SIGUSR1, lambda *_: print(\"passed on\", flush=True))\n"
    "print(\"ready\", flush=True)\n"
    "while True: signal.pause()'";

CommandOptions quiet() { return {.env = {{"PYTHONDONTWRITEBYTECODE", "1"}}}; }

Command job_with(const std::string& rank_0, const std::string& rank_1) {
  return Command({ddprun_program(), "--nproc_per_node=2", "--max-restarts=0", "sh", "-c",
                  "if [ $RANK = 0 ]; then exec " + rank_0 + "; else echo pid $$; exec " + rank_1 + "; fi"},
                 quiet());
}

long large_mb() {
  std::ifstream file("/proc/meminfo");
  long available = 0;
  for (std::string name, rest; file >> name && std::getline(file, rest);)
    if (name == "MemAvailable:") available = std::stol(rest) / 1024;
  return std::min(512L, available / 4);
}

// Waits until the worker has filled its memory and attached its channel, and sleeps.
void wait_until_settled(Command& job, pid_t worker) {
  const std::string proc = "/proc/" + std::to_string(worker);
  REQUIRE(eventually(
      [&] {
        const std::string status = read_file(proc + "/status");
        const std::size_t at = status.find("VmRSS:");
        const bool filled = at != std::string::npos && std::stol(status.substr(at + 6)) / 1024 >= large_mb();
        return (filled && status.find("State:\tS") != std::string::npos) || job.ended();
      },
      kLargeLimit));
}

struct Times {
  double told_ms;  // from the kill to the survivor's SIGTERM
  double gone_ms;  // to the event of the victim's pidfd, which the kernel sends once the memory is freed
};

Times after_the_kill(const std::string& victim) {
  Command job = job_with(kSurvivor, victim + " " + std::to_string(large_mb()) + " sleep");
  job.wait_for_output("ready", kLargeLimit);
  const pid_t worker = std::stoi(job.wait_for_output("pid ([0-9]+)", kLargeLimit)[1]);
  wait_until_settled(job, worker);
  const ddprun::Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, worker, 0)));
  REQUIRE(pidfd.get() >= 0);
  const auto killed = std::chrono::steady_clock::now();
  REQUIRE(kill(worker, SIGKILL) == 0);
  pollfd gone{pidfd.get(), POLLIN, 0};
  REQUIRE(poll(&gone, 1, static_cast<int>(std::chrono::milliseconds(kLargeLimit).count())) == 1);
  const std::chrono::nanoseconds freed = std::chrono::steady_clock::now() - killed;
  const auto stopped = std::stoll(job.wait_for_output("stopped at ([0-9]+)", kLargeLimit)[1]);
  CHECK(job.wait_exit(kLargeLimit).code == 1);
  CHECK(job.err().find("SIGKILL") != std::string::npos);
  const std::chrono::nanoseconds took = std::chrono::nanoseconds(stopped) - killed.time_since_epoch();
  using Ms = std::chrono::duration<double, std::milli>;
  return {Ms(took).count(), Ms(freed).count()};
}

}  // namespace

TEST_CASE("the survivors of a large worker's SIGKILL are stopped long before its memory is freed",
          "[channel][release-only]") {
  const auto& [language, victim] = GENERATE(std::pair{"C", kWorkerInC}, std::pair{"Python", kWorkerInPython});
  bool early = false;
  for (int i = 0; i < 8 && !early; ++i) {  // the machine may be busy
    const Times took = after_the_kill(victim);
    std::cout << language << " worker of " << large_mb() << " MB killed: the other one is told after " << took.told_ms
              << " ms, and its memory is freed after " << took.gone_ms << " ms\n";
    early = 4 * took.told_ms < took.gone_ms;
  }
  CHECK(early);
}

TEST_CASE("what a Python worker keeps in memory is there in the next round, and nowhere else", "[channel][sanitized]") {
  const TempFolder folder;
  const std::string script = folder.write(
      "keeps.py",
      "import os, sys, time\n"
      "import worker_channel as channel\n"
      "rank = os.environ['RANK']\n"
      "def show(words): sys.stdout.write(f'{words}\\n')\n"
      "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0':\n"
      "    assert channel.kept_steps() == []\n"
      "    assert channel.keep(1, b'')\n"
      "    for step in 2, 3: assert channel.keep(step, bytearray(f'{rank}:{step}', 'ascii'))\n"
      "    assert not channel.keep(4, bytes((1 << 18) + 1))\n"
      "    open(f'kept-{rank}', 'w').close()\n"
      "    while not os.path.exists(f'kept-{1 - int(rank)}'): time.sleep(0.001)\n"
      "    sys.exit(3)\n"
      "show(f'{rank} {channel.kept_steps()} {channel.kept(3)} {channel.kept(2)} {channel.kept(1)}')\n"
      "assert channel.keep(3, b'again') and channel.kept_steps() == [3, 2]  # the step that was done before\n"
      "assert channel.keep(1, b'x' * (1 << 18))\n"
      "show(f'{rank} again {channel.kept_steps()} {channel.kept(3)} {len(channel.kept(1))}')\n");
  const CommandOptions options{.env = {{"PYTHONDONTWRITEBYTECODE", "1"},
                                       {"PYTHONPATH", source_folder() + "/rendezvous/channel"},
                                       {"DDPRUN_SNAPSHOT_MEMORY", "9:0"}},
                               .cwd = folder.path()};
  const std::string virtual_ranks = GENERATE("", "--virtual-local-rank");
  for (const char* file : {"kept-0", "kept-1"}) fs::remove(folder / file);
  std::vector<std::string> words{ddprun_program(), "--nproc-per-node=2", "--memory-snapshots=1M", script};
  CommandOptions with_gpus = options;
  if (!virtual_ranks.empty()) {
    words.insert(words.begin() + 1, virtual_ranks);
    with_gpus.env["CUDA_VISIBLE_DEVICES"] = "0,1";
  }
  const Ended end = run(words, 30s, with_gpus);
  INFO(end.out << end.err);
  CHECK(end == exited(0));
  for (const std::string rank : {"0", "1"}) {
    CHECK(end.out.find(rank + " [3, 2] b'" + rank + ":3' b'" + rank + ":2' None\n") != std::string::npos);
    CHECK(end.out.find(rank + " again [1] None 262144\n") != std::string::npos);  // the round went back
  }
  const Ended without = run({ddprun_program(), script}, 30s, options);
  CHECK(without.err.find("assert channel.keep(1, b'')") != std::string::npos);  // not an outer ddprun's memory
}

TEST_CASE("a large worker that ends well raises no alarm", "[channel][release-only]") {
  const std::string worker = GENERATE(kWorkerInC, kWorkerInPython);
  Command job = job_with("sh -c 'sleep 0.5'", worker + " 500 thread exit-0");
  CHECK(job.wait_exit(kLargeLimit) == exited(0));
  CHECK(job.err().empty());
}

TEST_CASE("every Python worker can import the channel, by both its names, and a PYTHONPATH stays first",
          "[channel][fast]") {
  const TempFolder folder;
  const std::string script = folder.write(
      "script.py",
      "import os, ddprun, worker_channel\n"
      "from ddprun import channel\n"
      "assert channel.attach() and channel._library_beat and worker_channel is channel\n"
      "assert channel._watch.before_forward(None, ()) is None  # of a model that another process has watched\n"
      "print(os.environ['PYTHONPATH'].split(':')[0], ddprun.__version__, ddprun.launch)\n");
  const std::string before = GENERATE("", "/elsewhere");
  const Ended end = run({ddprun_program(), "--no-python", "sh", "-c", "python3 " + script + "; true"}, kLimit,
                        {.env = {{"PYTHONPATH", before.empty() ? std::nullopt : std::optional(before)}}});
  INFO(end.err);
  CHECK(end == exited(0));
  CHECK(has(end.out, (before.empty() ? "/share/ddprun/python " : before + " ") + project_version()));
  CHECK(has(end.out, "<function launch"));
}

TEST_CASE(
    "a rank of Python that handles signals ends by them after a failure, also in a call that waits for its peer, and "
    "so do its children",
    "[channel][fast]") {
  const TempFolder folder;
  folder.write("script.py",
               "import ctypes, os, sys, time\n"
               "from ddprun import channel\n"
               "channel.attach()\n"
               "channel.handle_signals()\n"
               "child = os.fork()\n"
               "if child == 0: time.sleep(60)\n"
               "time.sleep(0.05)\n"
               "os.kill(child, 15)\n"
               "assert os.waitpid(child, 0)[1] == 15\n"
               "if os.environ['RANK'] == '0': open('up', 'w').close()\n"
               "while not os.path.exists('up'): time.sleep(0.01)\n"
               "if os.environ['RANK'] == '1': sys.exit(5)\n"
               "mutex = ctypes.create_string_buffer(64)\n"
               "while True: ctypes.CDLL(None).pthread_mutex_lock(mutex)\n");
  const Ended end = run({ddprun_program(), "--nproc-per-node=2", "--max-restarts=0", "--stop-grace=100", "script.py"},
                        kLimit, {.cwd = folder.path()});
  CHECK(end == exited(1));
  CHECK(has(end.err, "rank 1 exited with code 5"));
}

TEST_CASE("a copy of the channel's file says what its watch() needs where it does not find it", "[channel][fast]") {
  const TempFolder folder;
  fs::copy_file(source_folder() + "/rendezvous/channel/worker_channel.py", folder / "worker_channel.py");
  folder.write("script.py",
               "import sys, worker_channel\n"
               "sys.path[:] = [folder for folder in sys.path if 'share/ddprun' not in folder]\n"
               "assert worker_channel.watch('model') == 'model' and worker_channel._words is not None\n"
               "worker_channel._watch.leave_to_script()\n");
  const Ended end = run({ddprun_program(), "--nproc-per-node=2", "script.py"}, kLimit, {.cwd = folder.path()});
  CHECK(end == exited(0));
  CHECK(
      end.err ==
      "ddprun: channel.watch() reports nothing, as it needs the Python package ddprun (No module named 'ddprun'): add "
      "its folder, share/ddprun/python of ddprun, to PYTHONPATH\n");
}

TEST_CASE("what --watch adds to Python waits for torch, and leaves the user's own start as it was", "[channel][fast]") {
  const TempFolder folder;
  folder.write("torch.py", "fake = True\n");
  fs::create_directory(folder / "own");
  folder.write("own/sitecustomize.py", "own = True\n");
  folder.write(
      "script.py",
      "import subprocess, sys, sitecustomize\n"
      "waits = lambda: any(type(finder).__name__ == '_Waits' for finder in sys.meta_path)\n"
      "assert sitecustomize.own and 'ddprun' not in sys.modules and 'torch' not in sys.modules and waits()\n"
      "child = 'import sys, sitecustomize; print(sitecustomize.own, [type(f).__name__ for f in sys.meta_path])'\n"
      "out = subprocess.check_output([sys.executable, '-c', child], text=True)\n"
      "assert out.startswith('True') and '_Waits' not in out\n"
      "import importlib.util\n"
      "assert importlib.util.find_spec('torch') and waits()\n"
      "import torch\n"
      "assert torch.fake and torch.__spec__.loader.get_source('torch')\n"
      "print('well')\n");
  const Ended end = run({ddprun_program(), "--watch", "script.py"}, kLimit,
                        {.env = {{"PYTHONPATH", folder / "own"}}, .cwd = folder.path()});
  CHECK(end == exited(0));
  CHECK(end.out == "well\n");
  CHECK(end.err ==
        "ddprun: --watch sees nothing of this script: ModuleNotFoundError: No module named 'torch.nn'; 'torch' is "
        "not a package\n");
}
