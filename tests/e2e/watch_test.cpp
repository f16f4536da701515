// --watch: what is told of a script without a line of code, and that it changes nothing.
#include <nlohmann/json.hpp>

#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

constexpr auto kTorchLimit = 180s;  // to load LibTorch takes seconds, on a busy machine a minute

CommandOptions in(const TempFolder& folder) {
  return {.env = {{"PYTHON_EXEC", torch_python()}, {"OMP_NUM_THREADS", "1"}}, .cwd = folder.path()};
}

Words job_of_kinds(const std::string& mode, const Words& kinds) {
  return joined({{ddprun_program(), "--nproc-per-node=2", "--rdzv-id=unwatched", "--watch=" + mode,
                  source_folder() + "/tests/e2e/unwatched.py"},
                 kinds});
}

std::set<std::string> lines(const std::string& text) {
  const auto all = lines_of(text);
  return {all.begin(), all.end()};
}

nlohmann::json live_of(const std::string& job) {
  return nlohmann::json::parse(run({ddprun_program(), "status", job, "--json"}, kLimit).out)["live"];
}

}  // namespace

TEST_CASE("a script without a line of code is seen, and computes the same bits", "[hang]") {
  const TempFolder folder;
  folder.write("go", "");
  const Ended off = run(job_of_kinds("off", {"graph", "plain", "ddp", "compiled"}), kTorchLimit, in(folder));
  REQUIRE(off == exited(0));
  fs::remove(folder / "go");
  std::string out;
  for (const Words& kinds : {Words{"ddp", "compiled"}, Words{"graph", "plain"}}) {
    Command job(job_of_kinds("see", kinds), in(folder));
    job.wait_for_output(kinds.back() + " 0", kTorchLimit);
    job.wait_for_output(kinds.back() + " 1", kTorchLimit);
    const auto live = live_of("unwatched");
    INFO(live.dump(2));
    CHECK(live["step"] == 80);
    for (const auto& rank : live["ranks"]) CHECK(rank["compute_seconds"] > 0);
    CHECK(live["time"]["useful_share"].is_number());
    const bool ddp = kinds[0] == "ddp";
    if (ddp)
      folder.write("go", "");
    else
      job.kill(SIGTERM);  // nothing is decided by what is only seen: it ends as without
    const Ended ended = job.wait_exit(kTorchLimit);
    CHECK(ended == exited(ddp ? 0 : 143));
    for (const char* const word : {"Warning", "lost"}) CHECK_FALSE(has(ended.err, word));
    out += ended.out;
    fs::remove(folder / "go");
  }
  CHECK(lines(out) == lines(off.out));
}

TEST_CASE("Ctrl-C is KeyboardInterrupt for a script that --watch watches", "[hang]") {
  const TempFolder folder;
  const std::string script = folder.write("script.py",
                                          "import os, time, torch, warnings\n"
                                          "model = torch.nn.Linear(2, 2)\n"
                                          "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
                                          "child = os.fork()\n"
                                          "if child == 0: optimizer.step()\n"  // which is not the rank's
                                          "if child == 0: os._exit(0)\n"
                                          "os.waitpid(child, 0)\n"
                                          "try:\n"
                                          "  for step in range(10**6):\n"
                                          "    model(torch.ones(1, 2)).sum().backward()\n"
                                          "    optimizer.step()\n"
                                          "    time.sleep(0.01)\n"
                                          "    warnings.warn('of each step')\n"  // shown once by each rank
                                          "    if step == 0: print('first', flush=True)\n"
                                          "    while step == 0 and not os.path.exists('go'): time.sleep(0.01)\n"
                                          "    if step == 3: print('up', flush=True)\n"
                                          "except KeyboardInterrupt: print('interrupted', flush=True)\n");
  Command job({ddprun_program(), "--nproc-per-node=2", "--rdzv-id=interrupted", "--watch", script}, in(folder));
  job.wait_for_output("first[^$]*first", kTorchLimit);
  const auto first = live_of("interrupted");
  CHECK(first["step"] == 1);
  CHECK(first["steps_per_second"].is_null());  // it began before anybody watched
  folder.write("go", "");
  job.wait_for_output("up[^$]*up", kTorchLimit);
  const auto live = live_of("interrupted");
  CHECK(live["ranks"].size() == 2);
  for (const auto& rank : live["ranks"]) CHECK(rank["step"] >= 4);
  job.kill(SIGINT);
  CHECK(job.wait_exit(kTorchLimit) == exited(130));
  CHECK(count(job.out(), "interrupted") == 2);
  CHECK(count(job.err(), "UserWarning: of each step") == 2);
}

TEST_CASE("a script that uses the channel itself is left alone by --watch", "[hang]") {
  const TempFolder folder;
  const std::string script = folder.write("script.py",
                                          "import os, time, torch\n"
                                          "model = torch.nn.Linear(2, 2)\n"
                                          "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
                                          "def step():\n"
                                          "  model(torch.ones(1, 2)).sum().backward()\n"
                                          "  optimizer.step()\n"
                                          "for _ in range(3): step()\n"
                                          "from ddprun import channel\n"
                                          "channel.attach()\n"
                                          "channel.phase(channel.SAVING)\n"
                                          "channel.step(1000)\n"
                                          "for _ in range(3): step()\n"
                                          "print('up', flush=True)\n"
                                          "while not os.path.exists('go'): time.sleep(0.02)\n");
  Command job({ddprun_program(), "--rdzv-id=itself", "--watch", script}, in(folder));
  job.wait_for_output("up", kTorchLimit);
  const auto live = live_of("itself");
  CHECK(live["step"] == 1000);
  CHECK(live["activity"] == "save");
  folder.write("go", "");
  CHECK(job.wait_exit(kTorchLimit) == exited(0));
}

TEST_CASE("a script that nobody can ask to save is told what it loses, by the newest file that it wrote", "[hang]") {
  const TempFolder folder;
  const std::string script = folder.write("script.py",
                                          "import io, os, signal, sys, time, torch\n"
                                          "how = sys.argv[1]\n"
                                          "model = torch.nn.Linear(2, 2)\n"
                                          "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
                                          "for step in range(1, 2 if how == 'one' else 8):\n"
                                          "  model(torch.ones(1, 2)).sum().backward()\n"
                                          "  optimizer.step()\n"
                                          "  torch.save(model, io.BytesIO())\n"
                                          "  if step == 5 and how == 'fails': torch.save(model, open('m', 'wb'))\n"
                                          "  elif step == 5 and how != 'none': torch.save(model, 'model.pt')\n"
                                          "if how == 'ends': sys.exit()\n"
                                          "if how == 'fails': os.kill(os.getpid(), signal.SIGSEGV)\n"
                                          "print('up', flush=True)\n"
                                          "while True: time.sleep(0.01)\n");
  const auto [watch, how, lost] = GENERATE(table<std::string, std::string, std::string>({
      {"act", "file", "2 steps are lost, as far as --watch saw: the newest file is of step 5"},
      {"act", "none", "7 steps are lost, as far as --watch saw: it wrote no file in this round"},
      {"act", "one", "1 step is lost, as far as --watch saw: it wrote no file in this round"},
      {"act", "fails", "2 steps are lost, as far as --watch saw: the newest file is of step 5"},
      {"act", "ends", ""},
      {"see", "file", ""},
  }));
  INFO(watch << " " << how);
  Command job({ddprun_program(), "--watch=" + watch, "--max-restarts=0", script, how}, in(folder));
  const bool stopped = how == "file" || how == "none" || how == "one";
  if (stopped) {
    job.wait_for_output("up", kTorchLimit);
    job.kill(SIGTERM);
  }
  const Ended ended = job.wait_exit(kTorchLimit);
  CHECK(ended == exited(stopped ? 143 : how == "ends" ? 0 : 1));
  CHECK(count(ended.err, "lost") == (lost.empty() ? 0 : 1));
  CHECK(has(ended.err, lost));
  CHECK(has(ended.err, "channel.request()") == (watch == "act" && stopped));
}

TEST_CASE("a copy of the channel's file beside a script watches it, too, and reports by that copy", "[hang]") {
  const TempFolder folder;
  fs::copy_file(source_folder() + "/rendezvous/channel/worker_channel.py", folder / "worker_channel.py");
  const std::string script = folder.write("script.py",
                                          "import os, sys, torch, worker_channel\n"
                                          "model = worker_channel.watch(torch.nn.Linear(2, 2))\n"
                                          "if 'DDPRUN_WATCH' in os.environ:  # as in a copy of an earlier version\n"
                                          "  del worker_channel._library_computes, worker_channel._library_stepped\n"
                                          "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
                                          "for _ in range(7):\n"
                                          "  model(torch.ones(1, 2)).sum().backward()\n"
                                          "  optimizer.step()\n"
                                          "assert worker_channel._words[worker_channel._STEP] == 7\n"
                                          "assert ('ddprun.channel' in sys.modules) == ('DDPRUN_WATCH' in os.environ)\n"
                                          "print('well')\n");
  const std::string watch = GENERATE("off", "act");
  const Ended end = run({ddprun_program(), "--watch=" + watch, script}, kTorchLimit, in(folder));
  INFO(end.err);
  CHECK(end == exited(0));
  CHECK(end.out == "well\n");
}

TEST_CASE("stock scripts print with --watch what they print without, and status tells their steps and phases",
          "[hang]") {
  Words words{torch_python(), source_folder() + "/tests/e2e/watch_scripts_check.py", ddprun_program()};
  if (!soaking()) words.insert(words.end(), {"--modes=see", "mistakes", "compiled"});
  const Ended ended = run(words, soaking() ? 3600s : 900s, {.env = {{"PYTHON_EXEC", torch_python()}}});
  INFO(ended.out);
  CHECK(ended == exited(0));
}
