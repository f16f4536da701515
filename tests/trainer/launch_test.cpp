// A program that launches itself under the real ddprun: what it gets back, what it is told, and that nothing stays.
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

constexpr auto kLimit = 60s;

// The program, with a place of its own for temporary files.
class Launching {
 public:
  explicit Launching(Words words, std::map<std::string, std::optional<std::string>> env = {}) {
    words.insert(words.begin(), programs_folder() + "/launch_worker");
    env["OMP_NUM_THREADS"] = "1";
    env["TMPDIR"] = folder_.path().string();
    command_ = std::make_unique<Command>(std::move(words), CommandOptions{.env = std::move(env)});
  }
  Command* operator->() { return command_.get(); }
  // To its end; neither a process nor a file may be left.
  Ended end() {
    const Ended ended = command_->wait_exit(kLimit);
    CHECK(command_->all_gone(kLimit));
    for (const auto& left : fs::directory_iterator(folder_.path()))  // ddprun keeps a failure's files
      CHECK_THAT(left.path().filename().string(), !StartsWith("ddprun-launch-"));
    return ended;
  }
  const fs::path& folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
  std::unique_ptr<Command> command_;
};

Ended launched(Words words, std::map<std::string, std::optional<std::string>> env = {}) {
  return Launching(std::move(words), std::move(env)).end();
}

}  // namespace

TEST_CASE("a function runs in several processes, and rank 0's result comes back", "[launch]") {
  const Ended ended = launched({"sum"});
  CHECK(ended == exited(0));
  CHECK(ended.out == "returned {\"rank\":0,\"sum\":30,\"world\":2}\n");
  CHECK(ended.err.empty());
}

TEST_CASE("the files between program and workers are the user's alone", "[launch]") {
  Launching job({"wait"});
  job->wait_for_output("up 1", kLimit);
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(job.folder())) {
    if (entry.path().filename().string().rfind("ddprun-launch-", 0) != 0) continue;  // ddprun has one of its own
    ++folders;
    CHECK((entry.status().permissions() & fs::perms(0777)) == fs::perms(0700));
  }
  CHECK(folders == 1);
  job->kill(SIGTERM);
  job.end();
}

TEST_CASE("arguments and results may be large, and hold what JSON's text does not", "[launch]") {
  const Ended ended = launched({"large"});
  CHECK(ended.out == "returned {\"infinity\":true,\"nan\":true,\"same\":true}\n");
}

TEST_CASE("an exception in a rank is told with the rank, its type and its words", "[launch]") {
  const Ended ended = launched({"throw"});
  CHECK(ended == exited(1));
  CHECK_THAT(ended.out, Contains("failed with 1\nthe job failed: rank 1") &&
                            Contains("std::out_of_range: no such luck") && Contains("rank 1's last words"));
  CHECK_THAT(ended.err, Contains("ddprun: the job failed: rank 1"));  // as ddprun says it, whoever starts it
}

TEST_CASE("a rank that is killed is told with its signal", "[launch]") {
  const Ended ended = launched({"kill"});
  CHECK(ended == exited(1));
  CHECK_THAT(ended.out, Contains("failed with 1\nthe job failed: rank 1") && Contains("SIGKILL"));
}

TEST_CASE("a job that takes too long is ended, with one sentence", "[launch]") {
  const Ended ended = launched({"wait", "timeout_ms=1500"});
  CHECK(ended == exited(124));
  CHECK_THAT(ended.out, Contains("failed with 124\nthe launched job was ended: it ran longer than 1500 ms "
                                 "(LaunchOptions::timeout).\n"));
}

TEST_CASE("options that cannot be and a ddprun that is not there are sentences", "[launch]") {
  CHECK(launched({"sum", "machines=2"}).out ==
        "error: cannot launch: dist_url is auto, which is for one machine, and machines is 2: give all of them an "
        "address "
        "of machine 0 and a free port there, such as tcp://machine0.example:29500.\n");
  CHECK(launched({"sum", "ddprun=/nowhere/ddprun"}).out ==
        "error: cannot launch: the launcher /nowhere/ddprun is not a program that this user may execute.\n");
  CHECK(launched({"sum"}, {{"DDPRUN_LAUNCHER", "/tmp"}}).out ==
        "error: cannot launch: the launcher /tmp is not a program that this user may execute.\n");
  CHECK_THAT(launched({"sum", "argument=--no-such-option"}).out,
             Contains("failed with 2\n") && Contains("no-such-option"));
}

TEST_CASE("a program may launch several times: later workers get the earlier results", "[launch]") {
  const Ended ended = launched({"twice"});
  CHECK(ended == exited(0));
  CHECK_THAT(ended.out,
             Contains("returned {\"failed\":true,\"first\":7,\"third\":{\"rank\":0,\"sum\":21,\"world\":2}}"));
  CHECK(count(ended.out, "the first one runs") == 2);  // once on each rank
}

TEST_CASE("what a program does before launch() unless it is a worker happens once", "[launch]") {
  for (const char* processes : {"processes=2", "processes=1"}) {
    const Ended ended = launched({"setup", processes});
    CHECK(count(ended.out, "set up\n") == 1);
    CHECK_THAT(ended.out,
               Contains(std::string("returned ") + (processes == std::string("processes=2") ? "true\n" : "false\n")));
  }
  CHECK(count(launched({"setup", "processes=1"}, {{"DDPRUN_LAUNCHED_BY", "nobody"}}).out, "set up\n") == 1);
}

TEST_CASE("a worker launches nothing itself", "[launch]") {
  CHECK_THAT(launched({"nested"}).out, Contains("cannot launch: this is in a function that launch() runs."));
  CHECK(
      launched({"sum"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}}).out ==
      "error: cannot launch: this process is rank 1 of a job already, and a worker cannot launch another job. Call the "
      "function itself, or start this program without a launcher.\n");
}

TEST_CASE("one process runs the function itself, unless it is to be watched", "[launch]") {
  CHECK(launched({"alone", "processes=1"}).out == "returned \"here\"\n");
  CHECK(launched({"alone", "processes=1", "timeout_ms=60000"}).out == "returned \"elsewhere\"\n");
}

TEST_CASE("a function that ends the process has no result, which is said", "[launch]") {
  CHECK_THAT(launched({"exit"}).out, Contains("rank 0 has left no result"));
}

TEST_CASE("SIGTERM at the program stops the job first, and then launch() throws", "[launch]") {
  Launching job({"wait"});
  job->wait_for_output("up 0", kLimit);
  job->wait_for_output("up 1", kLimit);
  job->kill(SIGTERM);
  const Ended ended = job.end();
  CHECK(ended == exited(128 + SIGTERM));
  CHECK_THAT(ended.out, Contains("failed with 143\nthe job was interrupted by SIGTERM.\n"));
}

TEST_CASE("a program that is killed takes ddprun and its workers along", "[launch]") {
  Launching job({"wait"});
  job->wait_for_output("up 0", kLimit);
  job->wait_for_output("up 1", kLimit);
  job->kill(SIGKILL);
  CHECK(job->wait_exit(kLimit) == killed_by(SIGKILL));
  CHECK(job->all_gone(kLimit));
}

TEST_CASE("Ctrl-C at a terminal ends the job once, and politely", "[launch]") {
  const TempFolder folder;
  Command job({programs_folder() + "/launch_worker", "slow"},
              {.env = {{"OMP_NUM_THREADS", "1"}, {"TMPDIR", folder.path().string()}}, .terminal = true});
  job.wait_for_output("up 0", kLimit);
  job.wait_for_output("up 1", kLimit);
  job.type("\x03");
  job.wait_for_output("told 0", kLimit);
  job.wait_for_output("told 1", kLimit);
  folder.write("go", "");
  job.wait_for_output("bye 0", kLimit);  // a second one would have killed it
  job.wait_for_output("bye 1", kLimit);
  CHECK(job.wait_exit(kLimit) == exited(128 + SIGINT));
  CHECK(job.all_gone(kLimit));
}

TEST_CASE("machines meet where dist_url says, and machine 0 gets the result", "[launch]") {
  const std::string url = "dist_url=tcp://127.0.0.1:" + std::to_string(free_port());
  Launching first({"sum", "machines=2", "machine_rank=0", url}), second({"sum", "machines=2", "machine_rank=1", url});
  CHECK(first.end().out == "returned {\"rank\":0,\"sum\":100,\"world\":4}\n");
  CHECK(second.end().out == "returned null\n");
}
