#!/usr/bin/env bash
# Runs a wheel in a Debian 11 (glibc 2.31) in a folder of its own: hello, a restart, two nodes over TCP with a token whose ranks use
# the store, and a program that cannot be exec'd. The other processor's wheel does the same under qemu's user mode, but for what that
# lacks. wheel_test.cpp calls it in a soak.
set -euo pipefail

usage() {
  cat <<'END'
usage: tests/e2e/portable_check.sh [--debian FOLDER] WHEEL

Installs the wheel in a Debian 11 and runs jobs there, under qemu if it is for
another processor; says what qemu cannot do. As root.

  --debian FOLDER   keeps that Debian, or takes the one that is there (default:
                    a new one, removed at the end)
END
}

fail() {
  echo "portable_check.sh: $*" >&2
  exit 1
}

debian='' wheel=''
while [ $# -gt 0 ]; do
  case $1 in
    --debian) debian=${2:-} && shift ;;
    -h | --help) usage && exit ;;
    -*) usage >&2 && exit 2 ;;
    *) wheel=$1 ;;
  esac
  shift
done
[ -f "$wheel" ] || { usage >&2 && exit 2; }
[ "$(id -u)" -eq 0 ] || fail "only root can make a Debian in a folder"
case $wheel in
  *_x86_64.whl) processor=x86_64 architecture=amd64 ;;
  *_aarch64.whl) processor=aarch64 architecture=arm64 ;;
  *) fail "$wheel is neither for x86_64 nor for aarch64" ;;
esac
work=$(mktemp -d)
: "${debian:=$work/debian}"
trap 'rm -rf "$work"' EXIT

emulated=false
if [ "$processor" != "$(uname -m)" ]; then
  emulated=true
  grep -qs '^enabled' "/proc/sys/fs/binfmt_misc/qemu-$processor" ||
    fail "programs for $processor do not run here: install qemu-user-static and binfmt-support"
fi
if [ ! -e "$debian/usr/bin/python3" ]; then
  debootstrap --variant=minbase --arch="$architecture" --include=ca-certificates,python3-venv bullseye "$debian" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2 && fail "debootstrap failed, see above"; }
fi

rm -rf "$debian/check"
mkdir "$debian/check"
cp "$wheel" "$debian/check/"
cat >"$debian/check/job.py" <<'END'
import os, sys
print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}, round {os.environ['TORCHELASTIC_RESTART_COUNT']}", flush=True)
if sys.argv[1:] == ["fail once"] and os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    sys.exit(3)
END
# One key of the round's store, set by each rank and read by the other, as PyTorch's TCPStore does.
cat >"$debian/check/store.py" <<'END'
import os, socket, struct
rank = int(os.environ["RANK"])
store = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])), 60)
text = lambda words: struct.pack("<Q", len(words)) + words
def receive(size):
    got = b""
    while len(got) < size:
        got += store.recv(size - len(got)) or exit("the store has closed the connection")
    return got
store.sendall(struct.pack("<BI", 0, 0x3C85F7CE))                            # validate
store.sendall(b"\x01" + text(f"rank{rank}".encode()) + text(b"here"))      # set
store.sendall(b"\x06" + struct.pack("<Q", 1) + text(f"rank{1 - rank}".encode()))  # wait
receive(1)
store.sendall(b"\x03" + text(f"rank{1 - rank}".encode()))                  # get
print("rank", rank, "read", receive(struct.unpack("<Q", receive(8))[0]).decode(), flush=True)
END
cat >"$debian/check/run.sh" <<'END'
set -eu
cd /check
python3 -m venv venv
venv/bin/pip --disable-pip-version-check install -q --no-index --no-deps ./*.whl
PATH=/check/venv/bin:$PATH
same() { [ "$(sort)" = "$1" ] || { echo "portable_check.sh: $2 printed something else" >&2 && exit 1; }; }
ddprun --version
python3 -c "import ctypes, glob; [ctypes.CDLL(module) for module in glob.glob('venv/lib/ddprun/*.so')]"
(umask 077 && ddprun --make-token >token)
ddprun --dry-run --nproc-per-node=2 job.py >dry
grep -q "Python: /check/venv/bin/python3, of the virtual" dry
ddprun --nproc-per-node=2 job.py >hello
same "rank 0 of 2, round 0
rank 1 of 2, round 0" hello <hello
ddprun --nproc-per-node=2 --max-restarts=1 job.py "fail once" >restart 2>restart.err || { cat restart.err && exit 1; }
grep -q "rank 1 of 2, round 1" restart
grep -q "exited with code 3" restart.err
printf '#!/no/such/interpreter\n' >program
chmod +x program
! ddprun --nproc-per-node=2 --max-restarts=0 --no-python ./program 2>refused
grep -q "could not be started" refused
node() { ddprun --nnodes=2 --node-rank="$1" --master-addr=127.0.0.1 --master-port=29577 --token-file=token "$2" >"node$1"; }
node 1 store.py &
node 0 store.py
wait $!
grep -q "rank 0 read here" node0
grep -q "rank 1 read here" node1
echo "hello, a restart, two nodes with a token, the store, an error of exec: all work"
if [ "$1" = true ]; then
  echo "skipped, as qemu's user mode lacks it: stacks (ptrace), the end of what has lost its parent (child subreapers)"
fi
END
unshare --mount --pid --net --fork sh -ec '
  ip link set lo up 2>/dev/null || true
  mount --bind /dev "$0/dev"
  mount -t proc proc "$0/proc"
  exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C chroot "$0" sh /check/run.sh "$1"' "$debian" $emulated ||
  fail "the wheel does not run in $debian"
