// Kernels that lack calls, and containers that forbid more than a machine does.
#include <sys/syscall.h>

#include <cerrno>
#include <string>
#include <vector>

#include "tests/e2e/programs.h"
#include "tests/support/free_port.h"
#include "tests/support/test.h"

namespace {

#ifndef SYS_futex_waitv
constexpr long SYS_futex_waitv = 449;
#endif
constexpr long kSetMempolicyHomeNode = 450;

// Runs a program under a filter that answers these calls with the error, as `python3 -c FILTER ERROR,CALL...
// PROGRAM...`: load the call's number; if it is one of them the error; else allow.
const char* const kFilter = R"(
import ctypes, os, struct, sys
error, *calls = map(int, sys.argv[1].split(","))
words = [(0x20, 0, 0, 0)]
for call in calls:
    words += [(0x15, 0, 1, call), (0x06, 0, 0, 0x50000 | error)]
words += [(0x06, 0, 0, 0x7fff0000)]
program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *word) for word in words))
libc, zero = ctypes.CDLL(None), ctypes.c_ulong(0)
libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero)  # PR_SET_NO_NEW_PRIVS
libc.prctl(22, ctypes.c_ulong(2), struct.pack("HxxxxxxQ", len(words), ctypes.addressof(program)))  # PR_SET_SECCOMP
os.execv(sys.argv[2], sys.argv[2:])
)";

Words without_calls(int error, const std::vector<long>& calls, const Words& words) {
  std::string list = std::to_string(error);
  for (const long call : calls) list += "," + std::to_string(call);
  return joined({{"python3", "-c", kFilter, list, kDdprun}, words});
}

// Since Linux 5.4.
const std::vector<long> kNewerCalls{SYS_close_range, SYS_openat2,      SYS_faccessat2,  SYS_process_madvise,
                                    SYS_clone3,      SYS_epoll_pwait2, SYS_futex_waitv, kSetMempolicyHomeNode};

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

TEST_CASE("on Linux 5.4 two nodes meet with a token") {
  const TempFolder folder;
  folder.write("job.py", "import os\nprint('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])\n");
  fs::permissions(folder.write("token", run({kDdprun, "--make-token"}, kLimit).out), fs::perms::owner_read);
  const std::string port = std::to_string(free_port());
  const auto node = [&](const char* rank) {
    return without_calls(ENOSYS, kNewerCalls,
                         {"--nnodes=2", std::string("--node-rank=") + rank, "--master-addr=127.0.0.1",
                          "--master-port=" + port, "--token-file=token", "job.py"});
  };
  Command first(node("0"), {.cwd = folder.path()}), second(node("1"), {.cwd = folder.path()});
  CHECK(first.wait_exit(kLimit) == exited(0));
  CHECK(second.wait_exit(kLimit) == exited(0));
  CHECK(first.out() + second.out() == "rank 0 of 2\nrank 1 of 2\n");
  CHECK(first.err() == "");
}

TEST_CASE("on a kernel that is too old ddprun says which one it needs") {
  const Ended ended = run(without_calls(ENOSYS, {SYS_pidfd_open}, {"--no-python", "true"}), kLimit);
  CHECK(ended == exited(69));
  CHECK(
      ended.err ==
      "ddprun: cannot start the agent: this kernel has no pidfds. ddprun needs Linux 5.4 or newer; uname -r says which "
      "one this is.\n");
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
