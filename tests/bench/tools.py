"""What the benches share: where the programs are, sides that take turns, and how a command's time and memory are taken."""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

os.environ.setdefault("XDG_STATE_HOME", "/dev/null")  # no job leaves a record in the home of who runs a bench
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/support"))
from free_port import free_port  # noqa: E402, F401  (the benches take it from here)

BIN = ROOT / "build/release/bin"
DDPRUN = str(BIN / "ddprun")
PYTHON = str(ROOT / ".venv/bin/python")
TORCHRUN = str(ROOT / ".venv/bin/torchrun")
TRUE = "/bin/true"


def ddprun(workers, *words):
    return [DDPRUN, f"--nproc_per_node={workers}", *words]


def torchrun(workers, *words, restarts=0):
    return [TORCHRUN, "--standalone", "--no-python", f"--max-restarts={restarts}", f"--nproc_per_node={workers}", *words]


def mpirun(workers, *words):
    return ["mpirun", "-n", str(workers), "--allow-run-as-root", "--oversubscribe", *words]


def worker_for_mpirun(workers):
    """mpirun 4.1 hangs where more than some 30 workers end while it still starts others: many live for a while."""
    return (TRUE,) if workers < 30 else ("/bin/sleep", "1" if workers < 100 else "2")


def milliseconds(command, runs, warmup=1):
    """Whole runs of a command, by hyperfine."""
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        subprocess.run(["hyperfine", "-N", "--warmup", str(warmup), "--runs", str(runs), "--export-json", result.name,
                        " ".join(command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [seconds * 1000 for seconds in json.load(result)["results"][0]["times"]]


def raise_descriptor_limit(connections):
    """For servers and loads, which inherit it."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < connections + 200:
        raise RuntimeError(f"{connections:,} connections need as many descriptors; the hard limit is {hard:,} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def raise_priority():
    """For the beginning of a session (preexec_fn): whatever else runs on this machine weighs less, where that may be asked for."""
    try:
        pathlib.Path("/proc/self/autogroup").write_text("-20")
    except OSError:
        pass


def in_turns(rounds, *sides):
    """What each of the functions gave in each round; every other round begins with the last one."""
    seen = [[] for _ in sides]
    for number in range(rounds):
        for given, side in list(zip(seen, sides))[::-1 if number % 2 else 1]:
            given.append(side())
    return seen


def peak_mib(command, runs):
    """The largest process of the command's tree."""
    def once():
        done = subprocess.run([str(BIN / "peak_memory"), *command], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return int(done.stdout.split()[-1]) / 1024

    return [once() for _ in range(runs)]
