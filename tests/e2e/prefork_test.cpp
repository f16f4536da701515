// Workers that are forked from a template (--prefork): nothing about them differs from those that are exec'd, whatever
// becomes of the template.
#include "tests/e2e/programs.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

const std::string kWorker = programs_folder() + "/prefork_worker";
constexpr auto kSuiteLimit = 600s;

std::string without_origin(const std::string& text) {
  return std::regex_replace(text, std::regex(" (forked|started) "), " ");
}

Ended preforked(std::vector<std::string> words, CommandOptions options = {}) {
  words.insert(words.begin(), "--prefork");
  return run(job_of(std::move(words)), kLimit, std::move(options));
}

// A process of the command that waits to fork.
pid_t template_of(Command& job) {
  for (const Process& process : job.processes())
    if (environment_of(process.pid).contains("DDPRUN_TEMPLATE")) return process.pid;
  return 0;
}

}  // namespace

TEST_CASE("a worker from a template is in nothing different from one that is exec'd", "[prefork]") {
  const std::vector<std::vector<std::string>> all{
      {}, {"--tee=3"}, {"--omp-threads=2", "--core-dumps"}, {"--virtual-local-rank"}, {"--cgroup"}};
  for (std::vector<std::string> options : all) {
    options.insert(options.end(), {"--nproc-per-node=3", kWorker, "x${local_rank}", "two words", ""});
    CAPTURE(options);
    const CommandOptions with{.env = {{"KEPT", "a=b c"}}};
    const Ended exec = run(job_of(options), kLimit, with), forked = preforked(options, with);
    REQUIRE(exec == exited(0));
    REQUIRE(forked == exited(0));
    CHECK(forked.err == exec.err);
    CHECK(count(forked.out, " forked arguments x") == 3);
    CHECK(count(forked.out, "in /proc 1") == 3);
    CHECK(sorted_lines(without_origin(forked.out)) == sorted_lines(without_origin(exec.out)));
  }
}

TEST_CASE("the only worker at a terminal is in its foreground, forked or not", "[prefork]") {
  for (const char* option : {"--prefork", "--max-restarts=0"}) {
    Command job(job_of({option, kWorker, "wait"}), {.terminal = true});
    job.wait_for_output("rank 0 .*leads its session 0; group 0; death signal 9", kLimit);
    job.type("\x03");
    CHECK(job.wait_exit(kLimit) == exited(130));
  }
}

TEST_CASE("a later round's workers come from the same template", "[prefork][sanitized]") {
  Command job(job_of({"--prefork", "--nproc-per-node=2", kWorker, "until=3", "wait"}));
  job.wait_for_output("rank [01] round 1 forked", kLimit);
  job.wait_for_output("rank 0 round 3 forked", kLimit);
  job.wait_for_output("rank 1 round 3 forked", kLimit);
  CHECK(count(job.out(), " started ") == 0);
  CHECK(template_of(job) != 0);
  job.kill(SIGTERM);
  job.wait_exit(kLimit);
  CHECK(job.all_gone(kLimit));
}

TEST_CASE("what has something that a fork loses is started as ever, with a sentence", "[prefork]") {
  const std::vector<std::pair<std::string, std::string>> all{
      {"thread", "as no template can be made: it has 2 threads (prefork_worker, prefork_worker)"},
      {"listen", "as no template can be made: it listens on a socket"}};
  for (const auto& [word, why] : all) {
    const Ended ended = preforked({"--nproc-per-node=2", kWorker, word});
    CHECK(ended == exited(0));
    CHECK(has(ended.err, why));
    CHECK(count(ended.out, " started ") == 2);
  }
  const Ended shell = preforked({"sh", "-c", "echo rank $RANK"});
  CHECK(shell == exited(0));
  CHECK(shell.out == "rank 0\n");
  CHECK(has(shell.err, "as sh is neither run by Python nor calls ddprun::prefork()"));
}

TEST_CASE("a program that has changed is loaded anew", "[prefork]") {
  const TempFolder folder;
  const std::string program = folder / "worker", next = folder / "next";
  fs::copy_file(kWorker, program);
  fs::copy_file(kWorker, next);
  Command job(job_of({"--prefork", "--max-restarts=9", program, "wait"}));
  job.wait_for_output("round 1 forked", kLimit);
  fs::rename(next, program);
  kill(job.wait_for_process("DDPRUN_ROUND", "1", kLimit), SIGKILL);
  job.wait_for_output("round 2 started", kLimit);
  CHECK(has(job.err(), program + " has changed, so this round's workers are started without it"));
  REQUIRE(eventually([&] { return template_of(job) != 0; }, kLimit));
  const Mark before = job.mark();
  kill(job.wait_for_process("DDPRUN_ROUND", "2", kLimit), SIGABRT);  // not the same failure twice
  job.wait_for_output("round 3 (forked|started)", kLimit, before);   // it may be loading yet
  job.kill(SIGTERM);
  job.wait_exit(kLimit);
  CHECK(job.all_gone(kLimit));
}

TEST_CASE("a template that does not answer delays no round for long", "[prefork]") {
  Command job(job_of({"--prefork", "--nproc-per-node=2", kWorker, "wait"}));
  for (const char* const rank : {"rank 0", "rank 1"})
    job.wait_for_output(rank + std::string(" round 1 forked"), kLimit);
  const pid_t stopped = template_of(job);
  REQUIRE(stopped != 0);
  kill(stopped, SIGSTOP);
  kill(job.wait_for_process("RANK", "1", kLimit), SIGKILL);
  job.wait_for_output("rank 0 round 2 started", kLimit);
  job.wait_for_output("rank 1 round 2 started", kLimit);
  CHECK(has(job.err(), "it did not fork, so this round's workers are started without it"));
  job.kill(SIGTERM);
  job.wait_exit(kLimit);
  CHECK(job.all_gone(kLimit));
}

TEST_CASE("a template killed at any moment costs no round: its workers are right, forked or not",
          "[prefork][sanitized]") {
  Series(
      "prefork: the template killed at a random moment of a job of four rounds: all ranks of all rounds, nothing left",
      10, 200)
      .run([](std::uint64_t seed) {
        std::mt19937_64 random(seed);
        Command job(job_of({"--prefork", "--nproc-per-node=2", "--max-restarts=9", kWorker, "until=4"}));
        const auto moment = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 60'000);
        while (std::chrono::steady_clock::now() < moment) continue;
        if (const pid_t victim = template_of(job)) kill(victim, SIGKILL);
        REQUIRE(job.wait_exit(kLimit) == exited(0));
        const std::string out = job.out();
        for (int rank = 0; rank < 2; ++rank) {
          INFO(out << job.err());
          REQUIRE(count(out, "rank " + std::to_string(rank) + " round 4 ") == 1);
        }
        REQUIRE(job.all_gone(kLimit));
      });
}

TEST_CASE("a Python template imports what the script imported last time, but for what starts threads", "[prefork]") {
  const TempFolder folder;
  const std::string learned = folder / "learned",
                    script = folder.write("script.py",
                                          "import gc, os, sys\n"
                                          "known = 'xmlrpc.client' in sys.modules\n"
                                          "import xmlrpc.client, own\n"
                                          "forked = gc.get_freeze_count() > 0\n"
                                          "os.write(1, f'{known} {forked}\\n'.encode())\n");
  folder.write("own.py", "");
  folder.write("elsewhere/with_thread.py",
               "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n");
  folder.write("elsewhere/fails.py", "1 / 0\n");
  const auto ended = [&] {
    const Ended end = preforked({"--prefork-learn=" + learned, "--nproc-per-node=2", script},
                                {.env = {{"PYTHONPATH", folder / "elsewhere"}}});
    INFO(end.out << end.err);
    CHECK(end == exited(0));
    CHECK(end.err.empty());
    return end.out;
  };
  const auto has = [&](const std::string& line) {
    return ("\n" + read_file(learned)).find("\n" + line + "\n") != std::string::npos;
  };
  CHECK(ended() == "False True\nFalse True\n");
  CHECK(has("xmlrpc.client"));
  CHECK_FALSE(has("own"));
  folder.write("learned", read_file(learned) + "with_thread\nfails\nno_such_module\n");
  CHECK(ended() == "True True\nTrue True\n");
  for (const char* name : {"!with_thread", "!fails", "!no_such_module"}) CHECK(has(name));
  folder.write("xmlrpc.py", "");  // the script's own: not to be hidden
  const Ended own = preforked({"--prefork-learn=" + learned, script});
  CHECK(own.err.find("'xmlrpc' is not a package") != std::string::npos);
  folder.write("learned", "\xff\n");  // no text
  fs::remove(folder / "xmlrpc.py");
  CHECK(ended() == "False True\nFalse True\n");
}

TEST_CASE("what is told of stops and in reports is the same with workers from a template", "[prefork]") {
  const TempFolder folder;
  for (const char* const name : {"sh", "python3", "true"})
    fs::copy_file(programs_folder() + "/forked_program", folder / name);
  const std::string tags = soaking() ? "[#stop_test],[#report_test]" : "[#stop_test][fast],[#report_test][fast]";
  const CommandOptions forked{
      .env = {{"PET_PREFORK", "1"}, {"PATH", folder.path().string() + ":" + std::getenv("PATH")}}};
  CHECK(run(job_of({"sh", "-c", "true"}), kLimit, forked).err.empty());  // else: workers are started without --prefork
  const Ended suite = run({programs_folder() + "/launch_tests", "-#", tags}, kSuiteLimit, forked);
  INFO(suite.out);
  CHECK(suite == exited(0));
  CHECK(has(suite.out, "All tests passed"));
}
