// Jobs on several hosts from one command, by a real ssh and sshd (ssh_hosts.h). Host 0 is where the command is typed.
#include "tests/e2e/programs.h"
#include "tests/e2e/ssh_hosts.h"
#include "tests/support/test.h"

namespace {

constexpr std::chrono::seconds kJobLimit{60};

Words shell(Words options, const std::string& script) {
  options.insert(options.end(), {"sh", "-c", script});
  return options;
}

// Runs until it is stopped; ignores nothing.
const std::string kWaits = "echo runs on $(hostname); exec sleep 600";
// Ends when it is asked to, and says so.
const std::string kSaves = "trap 'echo saved; exit 0' TERM; echo runs on $(hostname); while :; do sleep 0.1; done";

// `hosts`: one entry for each worker.
void wait_until_all_run(Command& job, const Words& hosts) {
  for (const std::string& host : std::set<std::string>(hosts.begin(), hosts.end())) {
    std::string all;
    for (auto n = std::count(hosts.begin(), hosts.end(), host); n > 0; --n) all += "runs on " + host + R"([\s\S]*)";
    job.wait_for_output(all, kJobLimit);
  }
}

// Hosts with a job of two workers on host 1 and one on host 2; all run.
struct RunningJob : SshHosts {
  RunningJob(const Words& options, const std::string& script, CommandOptions how = {}) : SshHosts(3) {
    serve_all();
    job = start(0, shell(joined({{"--hosts=host1:2,host2:1"}, options}), script), std::move(how));
    wait_until_all_run(*job, {"host1", "host1", "host2"});
  }
  std::unique_ptr<Command> job;
};

}  // namespace

TEST_CASE("one command starts workers on each machine, by its number of workers", "[ssh][fast]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(3);
  hosts.serve_all();
  auto job = hosts.start(
      0, shell({"--hosts", "host1:2,host2:1"},
               "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK $(hostname) $MASTER_ADDR $PWD"));
  const Ended ended = job->wait_exit(kJobLimit);
  CHECK(ended == exited(0));
  CHECK(ended.err.empty());
  const std::string folder = hosts.folder.path().string();
  // With a token, workers reach the store through their own agent.
  CHECK(sorted_lines(ended.out) == Words{"0/3 0/2 0 host1 127.0.0.1 " + folder, "1/3 1/2 0 host1 127.0.0.1 " + folder,
                                         "2/3 0/1 1 host2 127.0.0.1 " + folder});
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("a host file, the own machine among its hosts, a configuration file and the environment", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(2);
  hosts.serve(1);
  hosts.folder.write("hosts", "# two machines\nhost0 slots=1\n\nroot@host1 slots=2 max_slots=4\n");
  hosts.folder.write("job.toml",
                     "max-restarts = 0\nprogram = [\"sh\", \"-c\", \"echo $RANK $(hostname) $OF_FILE $NCCL_DEBUG "
                     "$CUDA_VISIBLE_DEVICES.\"]\n[env]\nOF_FILE = \"x y\"\n");
  auto job = hosts.start(0, {"--hostfile=hosts", "--config=job.toml"},
                         {.env = {{"NCCL_DEBUG", "WARN"}, {"CUDA_VISIBLE_DEVICES", "7"}}});
  const Ended ended = job->wait_exit(kJobLimit);
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == Words{"0 host0 x y WARN 7.", "1 host1 x y WARN .", "2 host1 x y WARN ."});
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("a job's file runs on several hosts, and its record has the events and metrics of all", "[ssh][jobs]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(3);
  hosts.serve_all();
  hosts.folder.write("job.toml", "hosts = 'host1:2,host2'\nssh = '" + hosts.ssh() +
                                     "'\nprogram = ['sh', '-c', 'echo rank=$RANK on $(hostname)']\n"
                                     "[[metrics]]\nname = 'rank'\nregex = 'rank=(\\d+)'\n");
  const CommandOptions here{.env = {{"XDG_STATE_HOME", hosts.folder / "state of head"}}, .cwd = hosts.folder.path()};
  const Ended ended = run(hosts.hosts.on(0, job_of({"run", "job.toml"})), kJobLimit, here);
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == Words{"rank=0 on host1", "rank=1 on host1", "rank=2 on host2"});
  const Ended told = run(job_of({"describe", "--json"}), kLimit, here);
  CHECK(has(told.out, "\"state\": \"succeeded\""));
  CHECK(has(told.out, "\"nodes\": 2"));
  CHECK(has(told.out, "\"last\": 0.0"));
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("lines of all hosts arrive whole", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(3);
  hosts.serve_all();
  // Each writes its lines in pieces.
  const std::string script =
      "import os,sys\n"
      "for i in range(2000):\n"
      "  for piece in (f'{os.environ[\"RANK\"]}:{i}:', 'abcdefgh' * (i % 50), f':{i}\\n'):\n"
      "    sys.stdout.write(piece)\n"
      "    if i % 7 == 0: sys.stdout.flush()\n";
  hosts.folder.write("writer.py", script);
  auto job = hosts.start(0, {"--hosts=host1,host2,host0", "writer.py"});
  const Ended ended = job->wait_exit(kJobLimit);
  CHECK(ended == exited(0));
  std::map<std::string, std::string> of_rank;
  for (const std::string& line : lines_of(ended.out)) of_rank[line.substr(0, line.find(':'))] += line + "\n";
  CHECK(of_rank.size() == 3);
  for (const auto& [rank, lines] : of_rank) {
    std::string expected;
    for (int i = 0; i < 2000; ++i) {
      expected += rank + ":" + std::to_string(i) + ":";
      for (int n = 0; n < i % 50; ++n) expected += "abcdefgh";
      expected += ":" + std::to_string(i) + "\n";
    }
    CHECK((lines == expected));  // too long to be printed
  }
}

TEST_CASE("a host that is down is named within five seconds, and nothing starts on the others", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(3);
  hosts.serve(1);
  const bool cut = GENERATE(true, false);  // no answer at all, or a refusal
  if (cut) {
    hosts.serve(2);
    hosts.hosts.cut(2);
  }
  auto job = hosts.start(0, shell({"--hosts=host1:2,host2"}, "touch started; sleep 600"));
  const auto begun = std::chrono::steady_clock::now();
  const Ended ended = job->wait_exit(kJobLimit);
  const auto took = std::chrono::steady_clock::now() - begun;
  CHECK(took < 25s);  // 4.5 s, and time for a busy machine: below the limit of an answer
  CHECK(ended.code == 69);
  CHECK_THAT(ended.err, Catch::Contains("ddprun: cannot reach host2 by ssh: ") &&
                            Catch::Contains(cut ? "it does not answer" : "Connection refused"));
  CHECK_FALSE(fs::exists(hosts.folder / "started"));
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("what keeps a host from taking part is said in one sentence", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(2);
  const auto refused = [&](const Words& options, int code, const Words& said) {
    hosts.serve(1);
    auto job = hosts.start(0, options);
    const Ended ended = job->wait_exit(kJobLimit);
    CHECK(ended.code == code);
    for (const std::string& words : said) CHECK_THAT(ended.err, Catch::Contains(words));
    CHECK(count(ended.err, "\n") == 1);
    hosts.stop_serving(1);
  };
  SECTION("a login that is refused") {
    hosts.folder.write("no_key", "");
    refused({"--ssh", hosts.ssh() + " -o IdentityFile=/dev/null -o IdentityFile=none", "--hosts=nobody@host1", "true"},
            69, {"cannot reach nobody@host1 by ssh: ", "Permission denied"});
  }
  SECTION("an unknown host key") {
    refused({"--ssh", hosts.ssh() + " -o UserKnownHostsFile=/dev/null", "--hosts=host1", "true"}, 69,
            {"cannot reach host1 by ssh: Host key verification failed",
             " -o UserKnownHostsFile=/dev/null -o BatchMode=yes host1 true"});
  }
  SECTION("an unknown name") {
    refused({"--hosts=nosuch", "true"}, 69, {"cannot reach nosuch by ssh: ", "Could not resolve hostname nosuch"});
  }
  SECTION("no ddprun") {
    fs::create_directory(hosts.folder / "empty");
    hosts.put(1, hosts.folder / "empty", programs_folder());
    refused({"--hosts=host1", "true"}, 69, {"there is no ddprun on host1: neither " + kDdprun, "Install ddprun "});
  }
  SECTION("another version") {
    // It speaks as a later ddprun would, and waits for what it is sent.
    const auto other = hosts.folder.write(
        "other", "#!/bin/sh\nprintf '\\036ddprun-node 99.1.0 %s\\n' \"$0\"\nexec cat >/dev/null\n", true);
    hosts.put(1, other, kDdprun);
    refused({"--hosts=host1", "true"}, 69,
            {"host1 has ddprun 99.1.0 (" + kDdprun + "), and this is ddprun ", ": install the same version there"});
  }
  SECTION("no such program") {
    hosts.folder.write("there", "", true);
    refused({"--hosts=host1", "./nosuch"}, 2, {"host1: ", "./nosuch"});
  }
  SECTION("no such folder") {
    TempFolder here;
    TempFolder empty;
    fs::create_directory(hosts.folder / "work");
    hosts.put(1, empty.path(), hosts.folder.path() / "work");
    fs::create_directory(hosts.folder / "work" / "deep");
    hosts.serve(1);
    auto job = hosts.start(0, {"--hosts=host1", "true"}, {.cwd = hosts.folder / "work" / "deep"});
    const Ended ended = job->wait_exit(kJobLimit);
    CHECK(ended.code == 2);
    CHECK_THAT(ended.err, Catch::Contains("host1: the folder ") && Catch::Contains("make it there"));
  }
  SECTION("GPUs that are not there") {
    refused({"--hosts=host1", "--nproc-per-node=gpu", "true"}, 2, {"host1: ", "no GPU of NVIDIA, AMD or Intel"});
  }
}

TEST_CASE("a failing worker is reported once, and its job's exit code is the command's", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(3);
  hosts.serve_all();
  auto job = hosts.start(0, shell({"--hosts=host1:2,host2:1,host0:1", "--max-restarts=0", "--exit-code=worker"},
                                  "[ $RANK != 2 ] || { echo broken >&2; exit 3; }; exec sleep 600"));
  const Ended ended = job->wait_exit(kJobLimit);
  CHECK(ended.code == 3);
  CHECK(count(ended.err, "the job failed") == 1);
  CHECK(count(ended.err, "exited with code 3") == 1);
  CHECK(count(ended.err, "broken\n") >= 1);
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("Ctrl-C ends the job on all hosts", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  RunningJob hosts({}, kWaits, {.terminal = true});
  hosts.job->type("\x03");
  const Ended ended = hosts.job->wait_exit(kJobLimit);
  CHECK(ended.code == 130);
  CHECK(count(ended.out, "SIGINT: stopping the workers") == 1);
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("SIGTERM lets the workers of all hosts save", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  RunningJob hosts({"--exit-on-preempt=75"}, kSaves);
  hosts.job->kill(SIGTERM);
  const Ended ended = hosts.job->wait_exit(kJobLimit);
  CHECK(ended.code == 75);
  CHECK(count(ended.out, "saved\n") == 3);
  CHECK(hosts.all_gone(30s));
}

TEST_CASE("nothing is left on any host after the command was killed", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  const Words tree = GENERATE(Words{}, Words{"--ssh-fan-out=1"});
  // These do not end when asked to, and have left their session.
  RunningJob hosts(joined({{"--stop-grace=2"}, tree}),
                   "trap '' TERM INT; setsid sleep 600 & echo runs on $(hostname); wait");
  hosts.job->kill(SIGKILL);
  CHECK(hosts.all_gone(20s));
}

TEST_CASE("a host that is cut off ends its workers, and the job ends with 75", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  RunningJob hosts({"--stop-grace=2"}, kWaits);
  hosts.hosts.cut(2);
  const auto begun = std::chrono::steady_clock::now();
  const Ended ended = hosts.job->wait_exit(kJobLimit);
  CHECK(ended.code == 75);
  CHECK_THAT(ended.err,
             Catch::Contains("the connection to host2 is lost") && Catch::Contains("The others were stopped."));
  CHECK(hosts.all_gone(20s));
  CHECK(std::chrono::steady_clock::now() - begun < 60s);
}

TEST_CASE("the head is cut off: all hosts end their workers", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  RunningJob hosts({"--stop-grace=2"}, kWaits);
  hosts.hosts.cut(0);
  CHECK(hosts.job->wait_exit(kJobLimit).code == 75);
  CHECK(hosts.all_gone(20s));
}

TEST_CASE("an ssh that is killed ends the job, and leaves nothing", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(2);
  hosts.serve_all();
  auto job = hosts.start(0, shell({"--hosts=host0,host1"}, kWaits));
  wait_until_all_run(*job, {"host0", "host1"});
  pid_t ssh = 0;
  for (const Process& process : job->processes())
    if (process.command_line.starts_with("ssh ")) ssh = process.pid;
  REQUIRE(ssh > 0);
  kill(ssh, SIGKILL);
  const Ended ended = job->wait_exit(kJobLimit);
  CHECK(ended.code == 75);
  CHECK_THAT(ended.err, Catch::Contains("the connection to host1 is lost: ssh was killed by SIGKILL"));
  CHECK(hosts.all_gone(10s));
}

TEST_CASE("the token is on no command line, and in no environment for long", "[ssh]") {
  if (!ssh_hosts_or_skip()) return;
  SshHosts hosts(2);
  hosts.serve_all();
  const std::string token = "0123456789abcdef0123456789abcdef0123456789abcdef";
  auto job = hosts.start(0, shell({"--hosts=host0,host1"}, kWaits), {.env = {{"DDPRUN_TOKEN", token}}});
  wait_until_all_run(*job, {"host0", "host1"});
  // All processes of the machine are in sight, on whichever host they are.
  const std::string search =
      "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ 2>/dev/null | grep -ac '[0]" + token.substr(1) + "'";
  CHECK(run({"sh", "-c", search}, kJobLimit).out == "0\n");
  job->kill(SIGINT);
  CHECK(job->wait_exit(kJobLimit).code == 130);
}
