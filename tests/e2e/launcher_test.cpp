// ddprun from the outside: its output, its exit codes, its workers' environment, what it leaves behind.
#include "rendezvous/base/fd.h"
#include "rendezvous/peer/listen_socket.h"
#include "tests/e2e/orphan_job.h"
#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

// Without the line that a shell prints if a signal ended its child.
long lines_of_ours(const std::string& err) {
  long count = 0;
  for (const std::string& line : lines_of(err)) count += line.starts_with("ddprun: ");
  return count;
}

// Occupies a port on loopback.
struct TakenPort {
  Listening listening = ddprun::rendezvous::open_listener("127.0.0.1", 0);
  ddprun::Fd fd{listening.fd};
  int port = listening.port;
};

}  // namespace

TEST_CASE("every worker learns its place, and a run that goes well prints nothing of ddprun's own", "[fast]") {
  const Ended ended = run(shell_job({"--nproc_per_node=3", "--rdzv-id=abc"},
                                    "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $GROUP_RANK $MASTER_ADDR "
                                    "$TORCHELASTIC_RUN_ID $TORCHELASTIC_RESTART_COUNT $DDPRUN_ROUND"),
                          kLimit);
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == std::vector<std::string>{"0 0 3 3 0 127.0.0.1 abc 0 1",
                                                            "1 1 3 3 0 127.0.0.1 abc 0 1",
                                                            "2 2 3 3 0 127.0.0.1 abc 0 1"});
  CHECK(ended.err.empty());
}

TEST_CASE("a job in another time namespace leaves a living one of the same id alone") {
  const std::vector<std::string> in_another{"unshare", "-T", "--boottime=100000", "-f"};
  std::vector<std::string> look = in_another;
  look.push_back("true");
  if (skipped_if(run(look, kLimit) != exited(0), "no time namespace may be made here")) return;
  const auto words = shell_job({"--rdzv-id=same"}, "echo here; read line");
  Command living(words, {.terminal = true});
  living.wait_for_output("here", kLimit);
  std::vector<std::string> other = in_another;
  const auto short_job = shell_job({"--rdzv-id=same"}, "true");
  other.insert(other.end(), short_job.begin(), short_job.end());
  const Ended ended = run(other, kLimit);
  CHECK(ended == exited(0));
  CHECK(ended.err.empty());
  living.type("\n");
  CHECK(living.wait_exit(kLimit) == exited(0));
}

TEST_CASE("two jobs at once on one machine take ports of their own") {
  const auto words = shell_job({"--nproc_per_node=2"}, "echo port $MASTER_PORT; [ $RANK = 1 ] || read line");
  Command one(words, {.terminal = true}), two(words, {.terminal = true});
  const std::string first = one.wait_for_output("port (\\d+)", kLimit)[1];
  const std::string second = two.wait_for_output("port (\\d+)", kLimit)[1];
  CHECK(first != second);
  one.type("\n");
  two.type("\n");
  CHECK(one.wait_exit(kLimit) == exited(0));
  CHECK(two.wait_exit(kLimit) == exited(0));
}

TEST_CASE("after a failure the whole group starts anew, with a fresh store on a new port and the restart counted",
          "[fast]") {
  const Ended ended = run(shell_job({"--nproc_per_node=2"},
                                    "echo round $DDPRUN_ROUND restarts $TORCHELASTIC_RESTART_COUNT port $MASTER_PORT; "
                                    "[ $DDPRUN_ROUND = 2 ] || { [ $RANK = 1 ] && exit 9; sleep 60; }"),
                          kLimit);
  CHECK(ended == exited(0));
  std::set<std::string> ports, rounds;
  for (const std::string& line : lines_of(ended.out)) {
    ports.insert(line.substr(line.rfind(' ')));
    rounds.insert(line.substr(0, line.find(" port")));
  }
  CHECK(rounds == std::set<std::string>{"round 1 restarts 0", "round 2 restarts 1"});
  CHECK(ports.size() == 2);
  CHECK(has(ended.err, "rank 1 exited with code 9"));
  CHECK(has(ended.err, " s into round 1; restart 1 of 3 (--max-restarts 0: none).\n"));
}

// Ten seconds count as progress if no worker reports any.
TEST_CASE("a script that fails again with the same last line is not started a third time, however long it ran") {
  const Ended ended = run(
      shell_job({"--max-restarts=3"},
                "echo round; [ $TORCHELASTIC_RESTART_COUNT = 0 ] || sleep 10.2; echo \"KeyError: 'lr'\" >&2; exit 3"),
      2 * kLimit);
  CHECK(ended == exited(1));
  CHECK(ended.out == "round\nround\n");
  CHECK(has(ended.err, "no restart: the same failure twice in a row, with the same last line of stderr"));
}

TEST_CASE("what cannot be started is one sentence and exit code 2", "[fast]") {
  const TempFolder folder;
  for (const auto& [words, sentence] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"nonsense"}, "ddprun: cannot start nonsense: it is neither a file here, nor in PATH, nor beside ddprun."},
           {{"./gone.py"}, "ddprun: cannot start ./gone.py: there is no such file."},
           {{"--dry-run", "./gone.py"}, "ddprun: cannot start ./gone.py: there is no such file."},
           {{"--nnodes=2", "true"}, "ddprun: --nnodes is 2, but no meeting place is given"},
           {{"--nproc_per_node=zero", "true"}, "ddprun: --nproc_per_node is 'zero'"},
           {{"--log-dir=/proc/none", "true"}, "ddprun: cannot make the log folder /proc/none"},
           {{}, "ddprun: no program is named"}}) {
    const Ended ended = run(job_of(words), kLimit, {.cwd = folder.path()});
    CHECK(ended == exited(2));
    CHECK(ended.err.rfind(sentence, 0) == 0);
    CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
  }
}

TEST_CASE("SIGINT and SIGTERM stop politely and are told by the exit code", "[fast]") {
  const auto [signal, code] = GENERATE(std::pair{SIGINT, 130}, std::pair{SIGTERM, 143}, std::pair{SIGHUP, 129});
  Command job(shell_job({"--nproc_per_node=2"},
                        "trap 'echo rank $RANK saves; exit 0' TERM INT; echo up $RANK; while :; do sleep 0.02; done"));
  job.wait_for_output("up 0", kLimit);
  job.wait_for_output("up 1", kLimit);
  job.kill(signal);
  const Ended ended = job.wait_exit(kLimit);
  CHECK(ended == exited(code));
  CHECK(has(ended.out, "rank 0 saves"));
  CHECK(has(ended.out, "rank 1 saves"));
  const bool was_slow = ended.err.find("ddprun: waiting for rank") != std::string::npos;
  CHECK((lines_of_ours(ended.err) == 1 || was_slow));
  CHECK(job.all_gone(10s));
}

TEST_CASE("a job of one node meets on the loopback where the address it was given is another machine's, and says so") {
  const std::string port = std::to_string(free_port());
  const auto job = [&](std::vector<std::string> options) {
    options.push_back("--nproc_per_node=2");
    options.insert(options.end(), {"bash", "-c", "exec 3<>/dev/tcp/$MASTER_ADDR/$MASTER_PORT && echo at $MASTER_ADDR"});
    return run(job_of(options), kLimit);
  };
  // A manual's line. No host has an address of 192.0.2.0/24 or a name in .invalid.
  for (const std::vector<std::string>& options : std::vector<std::vector<std::string>>{
           {"--nnodes=1", "--node_rank=0", "--master_addr=192.0.2.250", "--master_port=" + port},
           {"--rdzv-endpoint=192.0.2.250:" + port},
           {"--rdzv-backend=c10d", "--rdzv-endpoint=192.0.2.250:" + port},
           {"--local-addr=192.0.2.250"},
           {"--master-addr=head.invalid"}}) {
    const Ended ended = job(options);
    CHECK(ended == exited(0));
    CHECK(count(ended.out, "at 127.0.0.1\n") == 2);
    CHECK(lines_of_ours(ended.err) == 1);
    CHECK(has(ended.err, ") is not known as an address of "));
  }
  for (const std::string own : {"127.0.0.2", "localhost"}) {
    const Ended ended = job({"--master-addr=" + own, "--master-port=" + port});
    CHECK(ended == exited(0));
    CHECK(count(ended.out, "at " + own + "\n") == 2);
    CHECK(ended.err.empty());
  }
  CHECK(job({"--standalone", "--rdzv-endpoint=192.0.2.250:" + port}).err.empty());  // which is ignored
}

TEST_CASE("stderr passes through whole: bytes, long lines, and a last line without its end") {
  const Ended ended = run(shell_job({"--nproc_per_node=4"},
                                    "i=0; while [ $i -lt 300 ]; do echo rank-$RANK-$i-abcdefghijklmnopqrstuvwxyz >&2; "
                                    "i=$((i+1)); done; printf 'end %s\\000\\377' $RANK >&2"),
                          kLimit);
  CHECK(ended == exited(0));
  std::size_t whole = 0;
  for (const std::string& line : lines_of(ended.err))
    whole += line.rfind("rank-", 0) == 0 && line.ends_with("-abcdefghijklmnopqrstuvwxyz");
  CHECK(whole == 1200);
  for (int rank = 0; rank < 4; ++rank)
    CHECK(has(ended.err, "end " + std::to_string(rank) + std::string("\0\377\n", 3)));
}

TEST_CASE("option --log-dir keeps every round's output, and nothing is erased by a later one", "[fast]") {
  const TempFolder folder;
  const std::string script =
      "echo out $RANK; echo err $RANK >&2; echo \"{}\" > $TORCHELASTIC_ERROR_FILE; "
      "[ $DDPRUN_ROUND = 2 ] || { [ $RANK = 1 ] && exit 9; sleep 60; }";
  const auto words = shell_job({"--nproc_per_node=2", "--log-dir=logs", "--rdzv-id=run7"}, script);
  for (int times = 1; times <= 2; ++times) {
    const Ended ended = run(words, kLimit, {.cwd = folder.path()});
    CHECK(ended == exited(0));
    CHECK(has(ended.out, "out 0"));  // the console has it too
    std::string out, err;
    for (int i = 0; i < times; ++i) out += "out 1\n", err += "err 1\n";
    for (const char* round : {"round-1", "round-2"}) {
      const fs::path rank_1 = folder.path() / "logs/latest" / round / "rank-1";
      CHECK(read_file(rank_1 / "stdout.log") == out);
      CHECK(read_file(rank_1 / "stderr.log") == err);
      CHECK(read_file(rank_1 / "error.json") == "{}\n");
    }
    CHECK(fs::read_symlink(folder.path() / "logs/latest") == "run7");
  }
}

TEST_CASE("a failure, a port in use and kill -9 leave no empty folders behind") {
  const TempFolder folder;
  const CommandOptions here{.env = {{"TMPDIR", folder.path().string()}}};
  CHECK(run(shell_job({"--nproc_per_node=2"}, "echo > $TORCHELASTIC_ERROR_FILE"), kLimit, here) == exited(0));
  CHECK(fs::is_empty(folder.path()));
  const TakenPort taken;
  CHECK(run(job_of({"--master-port=" + std::to_string(taken.port), "true"}), kLimit, here) == exited(69));
  CHECK(run(job_of({"--max-restarts=0", "false"}), kLimit, here) == exited(1));
  {
    Command job(shell_job({}, "echo up; sleep 60"), here);
    job.wait_for_output("up", kLimit);
    job.kill(SIGKILL);
    CHECK(job.all_gone(gone_within()));
  }
  CHECK(eventually([&] { return fs::is_empty(folder.path()); }, gone_within()));
}

// In a separate network namespace, where the port is free.
TEST_CASE("two agents of one machine form an elastic job without an endpoint, and say that no others can join") {
  const std::string network = "ip link set lo up && ";
  if (run({"unshare", "-rn", "sh", "-c", network + "true"}, kLimit).code != 0) return;
  const std::string agent = kDdprun +
                            " --nnodes=1:2 --rdzv-backend=c10d --rdzv-conf=\"'last_call_timeout=20'\" "
                            "sh -c 'echo rank $RANK of $WORLD_SIZE'";
  const Ended ended =
      run({"unshare", "-rn", "sh", "-c", network + "{ " + agent + " & " + agent + " && wait; }"}, 2 * kLimit);
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == std::vector<std::string>{"rank 0 of 2", "rank 1 of 2"});
  CHECK(has(ended.err, "only agents of this machine can join (at localhost:29400)"));
}

TEST_CASE("a failed job that leaves error files says where they are, and one that leaves none says nothing of them") {
  const TempFolder folder;
  const CommandOptions here{.env = {{"TMPDIR", folder.path().string()}}};
  const auto failing = [&](const std::string& before) {
    return run(shell_job({"--max-restarts=0", "--nproc_per_node=2"}, before + "[ $RANK = 0 ] && sleep 60; exit 3"),
               kLimit, here);
  };
  CHECK_FALSE(has(failing("").err, "error files"));
  CHECK(fs::is_empty(folder.path()));
  const Ended ended = failing("echo '{\"message\": \"boom\"}' > $TORCHELASTIC_ERROR_FILE; ");
  CHECK(ended == exited(1));
  REQUIRE_FALSE(fs::is_empty(folder.path()));
  const std::string left = fs::directory_iterator(folder.path())->path();
  CHECK(has(ended.err, "ddprun: the workers' error files are in " + left + "\n"));
}

TEST_CASE("an agent that is killed leaves no folder behind, unless an error file lies in it") {
  const TempFolder folder;
  const auto killed = [&](const std::string& script) {
    Command job(shell_job({}, script + "echo up; sleep 60"), {.env = {{"TMPDIR", folder.path().string()}}});
    job.wait_for_output("up", kLimit);
    for (const Process& process : job.processes())
      if (process.parent == job.pid()) REQUIRE(::kill(process.pid, SIGKILL) == 0);
    return job.wait_exit(kLimit);
  };
  CHECK(killed("") == exited(128 + SIGKILL));
  CHECK(fs::is_empty(folder.path()));
  const Ended ended = killed("echo x > $TORCHELASTIC_ERROR_FILE; ");
  REQUIRE_FALSE(fs::is_empty(folder.path()));
  CHECK(has(ended.err, "the workers' error files are in " + folder.path().string()));
}

TEST_CASE("a fixed --master-port serves every round") {
  const int port = free_port();
  const Ended ended = run(
      shell_job({"--master-port=" + std::to_string(port)}, "echo $MASTER_PORT; exit $((2 - DDPRUN_ROUND))"), kLimit);
  CHECK(ended == exited(0));
  CHECK(sorted_lines(ended.out) == std::vector<std::string>{std::to_string(port), std::to_string(port)});
}

TEST_CASE("a port in use is one sentence with its number and a way out, exit code 69", "[fast]") {
  const TakenPort taken;
  const Ended ended = run(job_of({"--master-port=" + std::to_string(taken.port), "true"}), kLimit);
  CHECK(ended == exited(69));
  CHECK(has(ended.err, std::to_string(taken.port)));
  CHECK(has(ended.err, "--master-port"));
  CHECK(std::count(ended.err.begin(), ended.err.end(), '\n') == 1);
}

TEST_CASE("on a terminal a worker's stderr is a terminal, and Ctrl-C ends the job") {
  const int workers = GENERATE(1, 2);
  Command job(shell_job({"--nproc_per_node=" + std::to_string(workers), "--max-restarts=0"},
                        "[ -t 2 ] && echo tty >&2; echo up; exec sleep 60"),
              {.terminal = true});
  job.wait_for_output("tty", kLimit);
  job.wait_for_output("up", kLimit);
  job.type("\x03");
  CHECK(job.wait_exit(kLimit) == exited(130));
  CHECK(job.all_gone(10s));
}

TEST_CASE("a worker alone on a terminal can be talked to") {
  Command job(shell_job({}, "printf 'name? '; read name; echo hello $name"), {.terminal = true});
  job.wait_for_output("name\\? ", kLimit);
  job.type("you\n");
  job.wait_for_output("hello you", kLimit);
  CHECK(job.wait_exit(kLimit) == exited(0));
}

TEST_CASE("a hundred descriptors inherited by ddprun reach no worker") {
  const Ended ended = run({"bash", "-c",
                           "for i in $(seq 10 99); do eval \"exec $i</dev/null\"; done; exec " + kDdprun +
                               " sh -c 'for f in /proc/$$/fd/??*; do echo ${f##*/}; done; echo $DDPRUN_CHANNEL_FD'"},
                          kLimit);
  CHECK(ended.out == "61\n61\n");  // the worker channel only
}

TEST_CASE("with stdin, stdout or stderr closed, workers have /dev/null there, and nobody waits") {
  const std::string closed = GENERATE("<&-", ">&-", "2>&-", "<&- >&- 2>&-");
  const TempFolder folder;
  const Ended ended = run(
      {"bash", "-c",
       "exec " + kDdprun + " sh -c 'for f in 0 1 2; do readlink /proc/$$/fd/$f; done > seen; seq 50000 >&2' " + closed},
      kLimit, {.cwd = folder.path()});
  CHECK(ended == exited(0));
  const std::string seen = read_file(folder / "seen");
  INFO(closed << ": " << seen);
  if (has(closed, "<&-")) CHECK(seen.starts_with("/dev/null\n"));
  if (has(closed, ">&-")) CHECK(!has(seen, "anon_inode"));
  CHECK(std::count(seen.begin(), seen.end(), '\n') == 3);
}

TEST_CASE("a low limit of open files is enough for a worker and its channel") {
  const Ended ended = run({"sh", "-c", "ulimit -n 40; exec " + kDdprun + " sh -c 'echo $DDPRUN_CHANNEL_FD'"}, kLimit);
  CHECK(ended == exited(0));
  CHECK(ended.out == "39\n");
}

TEST_CASE("without /proc people are told that descendants may live on", "[release-only]") {
  const bool can = geteuid() == 0 && run({"unshare", "--mount", "true"}, kLimit).code == 0;
  if (skipped_if(!can, "it needs to be root")) return;
  const Ended ended =
      run({"unshare", "--mount", "sh", "-c", "mount -t tmpfs none /proc && exec " + kDdprun + " echo hi"}, kLimit);
  CHECK(ended == exited(0));
  CHECK(ended.out == "hi\n");
  CHECK(has(ended.err, "ddprun: /proc is not mounted here"));
}

TEST_CASE("a pipe as --config or --token-file is read to its end, and one that nobody writes to is one sentence") {
  const TempFolder folder;
  const Ended read =
      run({"bash", "-c", kDdprun + " --config=<(echo 'nproc-per-node = 2') sh -c 'echo $WORLD_SIZE'"}, kLimit);
  CHECK(read == exited(0));
  CHECK(read.out == "2\n2\n");
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const Ended silent = run(job_of({"--token-file=pipe", "true"}), kLimit, {.cwd = folder.path()});
  CHECK(silent == exited(2));
  CHECK(has(silent.err, "nothing was written to it for 10 s"));
}

TEST_CASE("a job whose output nobody reads any more ends with one line, and is not started again") {
  const std::string program =
      GENERATE("sh -c 'while echo x; do sleep 0.01; done'", "python3 -c 'while True: print(\"x\", flush=True)'");
  const Ended ended = run({"bash", "-c",
                           ddprun_program() + " --nproc-per-node=2 --max-restarts=3 --no-python " + program +
                               " | head -n 1; exit ${PIPESTATUS[0]}"},
                          kLimit);
  CHECK(ended == exited(128 + SIGPIPE));
  CHECK(count(ended.out, "\n") == 1);  // of two ranks, perhaps
  const long of_equal_tracebacks = count(ended.err, "ddprun: rank 1 wrote the same.\n");
  CHECK(lines_of_ours(ended.err) == 1 + of_equal_tracebacks);
  CHECK(has(ended.err, "ddprun: nobody reads the output any more: the job ends.\n"));
}

TEST_CASE("where nobody reads the output, a failure that has another cause is one as any other") {
  const std::string nobody_reads =
      "import os, sys; r, w = os.pipe(); os.dup2(w, 1); os.close(r); os.execv(sys.argv[1], sys.argv[1:])";
  const Ended ended = run({"python3", "-c", nobody_reads, ddprun_program(), "--max-restarts=1", "--no-python", "sh",
                           "-c", "echo no such label >&2; exit 3"},
                          kLimit);
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "restart 1 of 1"));
}

TEST_CASE("a broken pipe of a program's own is a failure as any other") {
  const Ended ended = run(job_of({"--max-restarts=1", "--no-python", "bash", "-c", "kill -PIPE $$"}), kLimit);
  CHECK(ended == exited(1));
  CHECK(has(ended.err, "restart 1 of 1"));
}
