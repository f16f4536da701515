// Kernels that lack calls, and containers that forbid more than a machine does.
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <regex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/soak.h"
#include "tests/support/test.h"

namespace {

#ifndef SYS_futex_waitv
constexpr long SYS_futex_waitv = 449;
#endif
constexpr long kSetMempolicyHomeNode = 450;

// Runs a program under a filter that answers calls with errors, as `python3 -c FILTER RULES PROGRAM...`. A rule is
// CALL,HOW,VALUE,ERROR, where HOW says what VALUE is: "any" nothing, "bits" of which one is set in the first argument,
// "is" the first argument.
const char* const kFilter = R"(
import ctypes, os, struct, sys
load, equals, any_bit, end = 0x20, 0x15, 0x45, 0x06
words = [(load, 0, 0, 0)]
for rule in sys.argv[1].split():
    call, how, value, error = rule.split(",")
    refuse = (end, 0, 0, 0x50000 | int(error))
    if how == "any":
        words += [(equals, 0, 1, int(call)), refuse]
    else:
        words += [(equals, 0, 4, int(call)), (load, 0, 0, 16), (any_bit if how == "bits" else equals, 0, 1, int(value)), refuse, words[0]]
words += [(end, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
libc, zero = ctypes.CDLL(None), ctypes.c_ulong(0)
libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero)  # PR_SET_NO_NEW_PRIVS
if libc.prctl(22, ctypes.c_ulong(2), struct.pack("HxxxxxxQ", len(words), ctypes.addressof(program))):  # PR_SET_SECCOMP
    sys.exit("no filter")
os.execvp(sys.argv[2], sys.argv[2:])
)";

std::string rule(long call, const std::string& argument, int error) {
  return std::to_string(call) + "," + argument + "," + std::to_string(error) + " ";
}

Words without_calls(int error, const std::vector<long>& calls, const Words& words) {
  std::string rules;
  for (const long call : calls) rules += rule(call, "any,0", error);
  return joined({{"python3", "-c", kFilter, rules, kDdprun}, words});
}

// Since Linux 5.4.
const std::vector<long> kNewerCalls{SYS_close_range, SYS_openat2,      SYS_faccessat2,  SYS_process_madvise,
                                    SYS_clone3,      SYS_epoll_pwait2, SYS_futex_waitv, kSetMempolicyHomeNode};

// All numbers since 4.18, of which none was used between 335 and 423; and what older calls did not know. There clone()
// ignores CLONE_PIDFD and makes no descriptor: here it fails, so that nothing can ask for it.
Words under_4_18(const Words& command) {
  constexpr long kFirstSince418 = 424, kLast = 470;
  std::string rules = rule(SYS_clone, "bits," + std::to_string(0x1000), EINVAL) + rule(SYS_waitid, "is,3", EINVAL);
  for (long call = kFirstSince418; call <= kLast; ++call) rules += rule(call, "any,0", ENOSYS);
  return joined({{"python3", "-c", kFilter, rules}, command});
}

Words on_4_18(const Words& words) { return under_4_18(job_of(words)); }

// What a job starts that leaves its parent and its session.
const char* const kFamily = "setsid sleep 600 & sleep 600 & echo up; wait";

pid_t agent_of(const Command& job) {
  for (const Process& one : job.processes())
    if (one.parent == job.pid()) return one.pid;
  throw std::runtime_error("there is no agent");
}

}  // namespace

TEST_CASE("on Linux 5.4 workers start, with their own descriptors only, and start again after a failure") {
  const TempFolder folder;
  const std::string script = folder.write("job.py", R"(import os, sys
print("rank", os.environ["RANK"], "round", os.environ["TORCHELASTIC_RESTART_COUNT"], sorted(map(int, os.listdir("/proc/self/fd")))[:-1])
sys.exit(3 if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" else 0)
)");
  const int error = GENERATE(ENOSYS, EPERM);  // an older container's filter does not know them either
  std::vector<long> missing = kNewerCalls;
  if (error == EPERM) std::erase(missing, SYS_clone3);  // then no program of glibc starts a thread
  const Words job = {"--nproc-per-node=1", "--max-restarts=1", script};
  const Ended here = run(joined({{kDdprun}, job}), kLimit), there = run(without_calls(error, missing, job), kLimit);
  CHECK(here == exited(0));
  CHECK(there == exited(0));
  CHECK(there.out == here.out);
  CHECK(has(there.out, "rank 0 round 1"));
}

TEST_CASE("on Linux 5.4 and 4.18 two nodes meet with a token") {
  const bool oldest = GENERATE(false, true);
  const TempFolder folder;
  folder.write("job.py", "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n");
  fs::permissions(folder.write("token", run({kDdprun, "--make-token"}, kLimit).out), fs::perms::owner_read);
  const std::string port = std::to_string(free_port());
  const auto node = [&](const char* rank) {
    const Words words = {"--nnodes=2",
                         std::string("--node-rank=") + rank,
                         "--master-addr=127.0.0.1",
                         "--master-port=" + port,
                         "--token-file=token",
                         "job.py"};
    return oldest ? on_4_18(words) : without_calls(ENOSYS, kNewerCalls, words);
  };
  Command first(node("0"), {.cwd = folder.path()}), second(node("1"), {.cwd = folder.path()});
  CHECK(first.wait_exit(kLimit) == exited(0));
  CHECK(second.wait_exit(kLimit) == exited(0));
  CHECK(first.out() + second.out() == "rank 0 of 2\nrank 1 of 2\n");
  CHECK(first.err() == "");
}

TEST_CASE("on Linux 4.18 workers start, fail with their own status, and start again") {
  const Ended again = run(on_4_18({"-v", "--nproc-per-node=2", "--max-restarts=1", "sh", "-c",
                                   "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit $((3 + RANK)); echo rank $RANK"}),
                          kLimit);
  CHECK(again == exited(0));
  CHECK(sorted_lines(again.out) == Words{"rank 0", "rank 1"});
  CHECK(std::regex_search(again.err, std::regex("rank (0 exited with code 3|1 exited with code 4)")));
  CHECK(has(again.err, "ddprun: this kernel has no pidfds"));

  const Words crash = {"--exit-code=worker", "--max-restarts=0", "sh", "-c", "kill -SEGV $$"};
  CHECK(run(on_4_18(crash), kLimit) == run(job_of(crash), kLimit));
  const Words no_program = {"--max-restarts=0", "--no-python", "/etc/passwd"};
  const Ended refused = run(on_4_18(no_program), kLimit);
  CHECK(refused == run(job_of(no_program), kLimit));
  CHECK_FALSE(has(refused.err, "pidfds"));
}

// Their ends came together, and the next round's workers were not seen to end: the reactor had woken their watches for
// descriptors that were closed.
TEST_CASE("on Linux 4.18 workers that crash together in two rounds end the job at once") {
  Series("crash together", 6, 500).run([](std::uint64_t) {
    const Ended ended = run(on_4_18({"--nproc-per-node=2", "--stop-grace=60", "sh", "-c", "kill -SEGV $$"}), kLimit);
    REQUIRE(ended == exited(1));
  });
}

TEST_CASE("on Linux 4.18 signals end a job, and kill -9 of keeper or agent leaves nothing") {
  const auto killed_keeper = [](Command& job) { job.kill(SIGKILL); };
  const auto killed_agent = [](Command& job) { kill(agent_of(job), SIGKILL); };
  const auto terminated = [](Command& job) { job.kill(SIGTERM); };
  const auto interrupted = [](Command& job) { job.kill(SIGINT); };
  Series("the end of a job on Linux 4.18", 1, 100).run([&](std::uint64_t) {
    for (const std::function<void(Command&)>& end :
         std::vector<std::function<void(Command&)>>{killed_keeper, killed_agent, terminated, interrupted}) {
      Command job(on_4_18({"--nproc-per-node=2", "--stop-grace=1", "sh", "-c", kFamily}));
      job.wait_for_output("up\n(.|\n)*up\n", kLimit);
      end(job);
      job.wait_exit(kLimit);
      REQUIRE(job.all_gone(kLimit));
    }
  });
}

TEST_CASE("on Linux 4.18 a run ends what its last one left behind") {
  const Words words = {"--rdzv-id=again", "--nproc-per-node=1", "sh", "-c", kFamily};
  Command first(on_4_18(words));
  first.wait_for_output("up\n", kLimit);
  const pid_t agent = agent_of(first);
  kill(agent, SIGSTOP);  // so that both die at once
  first.kill(SIGSTOP);
  kill(agent, SIGKILL);
  first.kill(SIGKILL);
  first.wait_exit(kLimit);
  CHECK(run(on_4_18({"--rdzv-id=again", "--no-python", "true"}), kLimit) == exited(0));
  CHECK(first.all_gone(kLimit));
}

TEST_CASE("on Linux 4.18 workers are forked from a template, and a job file runs") {
  const Words words = {"--prefork", "--no-python", programs_folder() + "/prefork_worker", "state"};
  const Ended forked = run(on_4_18(words), kLimit);
  CHECK(forked == exited(0));
  CHECK(forked.err == "");
  const TempFolder folder;
  folder.write("job.toml", "program = ['sh', '-c', 'echo rank $RANK; exit 7']\nnproc_per_node = 1\nmax_restarts = 0\n");
  const Ended by_file =
      run(on_4_18({"run", "job.toml"}), kLimit, {.env = {{"XDG_STATE_HOME", folder / "state"}}, .cwd = folder.path()});
  CHECK(by_file == exited(1));
  CHECK(by_file.out == "rank 0\n");
  CHECK(has(by_file.err, "exited with code 7"));
}

// There a worker has a copy of ddprun's memory, and begins while ddprun goes on.
TEST_CASE("under an emulator that forks for a vfork workers start together, and an error of exec is told",
          "[release-only]") {  // the sanitizers are to be loaded first
  const CommandOptions emulated{.env = {{"LD_PRELOAD", programs_folder() + "/emulator_shim.so"}}};
  const Ended again = run(job_of({"-v", "--nproc-per-node=4", "--max-restarts=1", "sh", "-c",
                                  "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit $((3 + RANK)); echo rank $RANK"}),
                          kLimit, emulated);
  CHECK(again == exited(0));
  CHECK(sorted_lines(again.out) == Words{"rank 0", "rank 1", "rank 2", "rank 3"});
  CHECK(has(again.err, "this is an emulator without child subreapers"));

  const TempFolder folder;
  folder.write("program", "#!/no/such/interpreter\n", true);
  const Ended refused =
      run(job_of({"--nproc-per-node=2", "--max-restarts=0", "--no-python", folder / "program"}), kLimit, emulated);
  CHECK(refused == exited(1));
  CHECK(has(refused.err, "could not be started"));
  CHECK(has(refused.err, "/no/such/interpreter"));
}

// Read-only root, no program from /tmp, no /dev/shm, no process of others in /proc, a user without a name or a right,
// ddprun as PID 1.
TEST_CASE("in a narrow container a job is restarted, seen and told about, and two nodes meet") {
  if (run({"unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"}, kLimit).code != 0) return;
  const TempFolder folder;
  folder.write("box", R"(#!/bin/sh
exec unshare --mount --pid --net --ipc --uts --fork sh -ec '
ip link set lo up
mount --make-rprivate /
mount --rbind / /mnt
mount -o remount,bind,ro /mnt
mount -t proc -o hidepid=2 proc /mnt/proc
mount -t tmpfs -o noexec,nosuid,nodev,mode=1777 tmp /mnt/tmp
mount -t tmpfs -o mode=755 dev /mnt/dev
for name in null zero random urandom; do touch /mnt/dev/$name; mount --bind /dev/$name /mnt/dev/$name; done
mount --bind "$0" /mnt/opt
exec chroot /mnt setpriv --reuid=54321 --regid=54321 --clear-groups --bounding-set=-all --no-new-privs env -i PATH=/opt/bin:/usr/bin:/bin "$@"' "$@"
)",
               true);
  const std::string build = fs::path(kDdprun).parent_path().parent_path();
  const auto in_box = [&](const Words& words) { return run(joined({{folder / "box", build}, words}), kLimit); };
  const Ended restarted = in_box({"ddprun", "--nproc-per-node=2", "--max-restarts=1", "sh", "-c",
                                  "[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 3; echo rank $RANK of user $(id -u)"});
  CHECK(restarted == exited(0));
  CHECK(sorted_lines(restarted.out) == Words{"rank 0 of user 54321", "rank 1 of user 54321"});
  CHECK(has(restarted.err, "exited with code 3"));

  const Ended met = in_box({"sh", "-ec", R"(cd /tmp
umask 077
ddprun --make-token >token
node() { ddprun --nnodes=2 --node-rank=$1 --master-addr=127.0.0.1 --master-port=29577 --token-file=token sh -c 'echo rank $RANK'; }
node 1 &
node 0
wait $!)"});
  CHECK(met == exited(0));
  CHECK(sorted_lines(met.out) == Words{"rank 0", "rank 1"});

  const Ended seen = in_box({"sh", "-ec", R"(cd /tmp
mkfifo started go
ddprun --rdzv-id=here sh -c 'echo >started; read line <go' &
read line <started
ddprun list
ddprun status here
ddprun stacks here
echo >go
wait $!)"});
  CHECK(seen == exited(0));
  CHECK(has(seen.out, "here  running"));
  CHECK(has(seen.out, "state:      running"));
  CHECK(has(seen.out, "\"sh\" (main)"));
}
