"""Measures ddprun beside its peers, in one run: medians, ratios, goals. Started by scripts/bench.sh, which builds first.

Every measurement is a function that returns rows; a row holds both sides' samples, so that build/bench/*.json has all of
them. Ours and the peer's runs alternate where they are long, so that a busy moment of the machine hits both.
"""
import argparse
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import tee

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
DDPRUN = str(BIN / "ddprun")
TRAIN = str(BIN / "train")
PYTHON = str(ROOT / ".venv/bin/python")
TORCHRUN = str(ROOT / ".venv/bin/torchrun")
PEER_SCRIPT = str(ROOT / "tests/trainer/python_ddp.py")
MARK = "DDPRUN_BENCH_MARK"


class Row:
    """One line of the table. ratio = peer / ours for times, ours / peer for speeds; a goal is on the ratio or on ours."""

    def __init__(self, what, unit, ours, peer_name="", peer=(), goal="", reached=None, higher_is_better=False):
        self.what, self.unit, self.ours, self.peer_name, self.peer = what, unit, list(ours), peer_name, list(peer)
        self.goal, self.higher_is_better = goal, higher_is_better
        mine = statistics.median(self.ours)
        theirs = statistics.median(self.peer) if self.peer else None
        self.ratio = None if theirs is None else (mine / theirs if higher_is_better else theirs / mine)
        self.reached = None if reached is None else reached(mine, self.ratio)

    def cells(self):
        def figure(samples):
            return f"{statistics.median(samples):,.3g} {self.unit}" if statistics.median(samples) < 1000 else \
                f"{statistics.median(samples):,.0f} {self.unit}"

        verdict = {None: "", True: "reached", False: "MISSED"}[self.reached]
        return [self.what, f"{figure(self.ours)} ({len(self.ours)})",
                f"{self.peer_name} {figure(self.peer)} ({len(self.peer)})" if self.peer else self.peer_name,
                f"{self.ratio:,.2f}x" if self.ratio else "", self.goal, verdict]


# ---- Launch: two workers that do nothing

def hyperfine(command, runs, warmup):
    with tempfile.NamedTemporaryFile(suffix=".json") as result:
        subprocess.run(["hyperfine", "-N", "--warmup", str(warmup), "--runs", str(runs), "--export-json", result.name,
                        " ".join(command)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return [seconds * 1000 for seconds in json.load(result)["results"][0]["times"]]


def peak_mib(command, runs):
    def once():
        done = subprocess.run([str(BIN / "peak_memory"), *command], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
        return int(done.stdout.split()[-1]) / 1024

    return [once() for _ in range(runs)]


def bench_launch():
    ours = [DDPRUN, "--nproc_per_node=2", "true"]
    torchrun = [TORCHRUN, "--standalone", "--no-python", "--nproc_per_node=2", "true"]
    mpirun = ["mpirun", "-n", "2", "--allow-run-as-root", "--oversubscribe", "true"]
    our_times, torchrun_times, mpirun_times = [], [], []
    for _ in range(5):
        our_times += hyperfine(ours, 10, 2)
        torchrun_times += hyperfine(torchrun, 2, 0)
        mpirun_times += hyperfine(mpirun, 4, 1)
    our_memory = peak_mib(ours, 5)
    yield Row("start and end 2 x true", "ms", our_times, "torchrun", torchrun_times, ">= 250x",
              lambda mine, ratio: ratio >= 250)
    yield Row("start and end 2 x true", "ms", our_times, "mpirun", mpirun_times, ">= 4x", lambda mine, ratio: ratio >= 4)
    yield Row("peak memory of the launcher", "MiB", our_memory, "torchrun", peak_mib(torchrun, 2), "<= 10 MiB",
              lambda mine, ratio: mine <= 10)
    yield Row("peak memory of the launcher", "MiB", our_memory, "mpirun", peak_mib(mpirun, 3))


# ---- A job that is killed from outside

class Job:
    """A command in a folder of its own whose processes are found by a mark; nothing of it is left at the end."""

    def __init__(self, command, env=None):
        self.folder = tempfile.mkdtemp(prefix="ddprun-bench-")
        command = [word.replace("FOLDER", self.folder) for word in command]
        self.mark = os.path.basename(self.folder)
        self.process = subprocess.Popen(command, cwd=self.folder, env={**os.environ, **(env or {}), MARK: self.mark},
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.communicate(timeout=40)
        except subprocess.TimeoutExpired:
            pass
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self, **variables):
        wanted = [f"{name}={value}".encode() for name, value in {**variables, MARK: self.mark}.items()]
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                entries = pathlib.Path("/proc", pid, "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(entry in entries for entry in wanted):
                found.append(int(pid))
        return found

    def wait_for_line(self, pattern, limit=60):
        """The time at which such a line came; None after the limit."""
        end = time.monotonic() + limit
        while True:
            while (line := self.next_line()) is not None:
                if re.search(pattern, line):
                    return time.monotonic_ns()
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError(f"{self.process.args[:3]} ended without a line like {pattern}")
            self.text += data.decode()

    def read_more(self):
        data = os.read(self.process.stdout.fileno(), 65536)
        if not data:
            raise RuntimeError(f"{self.process.args[:3]} ended")
        self.text += data.decode()

    def next_line(self):
        line, newline, rest = self.text.partition("\n")
        if not newline:
            return None
        self.text = rest
        return line


def resident_mb(pid):
    return int(pathlib.Path("/proc", str(pid), "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def stamps(folder, count, limit=60):
    """The times that `count` workers wrote, once they are all there: {pid: ns}."""
    end = time.monotonic() + limit
    while True:
        files = [path for path in pathlib.Path(folder).iterdir() if path.name.isdigit()]
        if len(files) >= count:
            return {int(path.name): int(path.read_text()) for path in files}
        if time.monotonic() > end:
            raise RuntimeError(f"{len(files)} of {count} workers within {limit} s")
        time.sleep(0.001)


def time_of_restart(launcher):
    """From the SIGKILL of one of two sleeping workers to the first line of the later of the two new ones, in ms."""
    with Job([*launcher, str(BIN / "stamp_worker"), "FOLDER"]) as job:
        first = stamps(job.folder, 2)
        time.sleep(random.uniform(0.1, 0.3))  # who polls is met at any moment of the period
        killed = time.monotonic_ns()
        os.kill(min(first), signal.SIGKILL)
        new = {pid: at for pid, at in stamps(job.folder, 4).items() if pid not in first}
        return (max(new.values()) - killed) / 1e6


def bench_restart():
    ours = [time_of_restart([DDPRUN, "--nproc_per_node=2"]) for _ in range(20)]
    peer = [time_of_restart([TORCHRUN, "--standalone", "--no-python", "--max-restarts=3", "--nproc_per_node=2"])
            for _ in range(5)]
    yield Row("death -> new workers' first line", "ms", ours, "torchrun", peer, "<= 10 ms", lambda mine, ratio: mine <= 10)


# ---- Starting workers

def bench_spawn():
    done = subprocess.run([str(BIN / "spawn_bench")], check=True, stdout=subprocess.PIPE, text=True)
    for line in done.stdout.splitlines():
        count, ours, bare, with_setsid = (float(word) for word in line.split())
        goal, reached = (">= 0.67x", lambda mine, ratio: ratio >= 1 / 1.5) if count == 64 else ("", None)
        yield Row(f"start {count:.0f} workers, best round", "us", [ours], "posix_spawn", [bare], goal, reached)
        yield Row(f"start {count:.0f} workers, best round", "us", [ours], "posix_spawn, setsid", [with_setsid])


# ---- Death of a large worker to its peer's SIGTERM

SURVIVOR = """
import signal, time
def stop(*_):
    print("stopped", time.monotonic_ns(), flush=True)
    raise SystemExit
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True: signal.pause()
"""


def time_to_stop(megabytes, with_channel):
    """From the SIGKILL of a worker of that size to the SIGTERM its peer gets, in ms."""
    victim = [sys.executable, str(ROOT / "tests/agent/channel_worker.py"), str(ROOT / "rendezvous"), str(megabytes),
              "sleep"]
    with Job([DDPRUN, "--nproc_per_node=2", "--max-restarts=0", sys.executable, "-c",
              "import os, sys\n"
              "if sys.argv[1] == 'without': os.environ.pop('DDPRUN_CHANNEL_FD')\n"
              f"os.execv(sys.executable, [sys.executable, '-c', {SURVIVOR!r}] if os.environ['RANK'] == '0' else sys.argv[2:])",
              "with" if with_channel else "without", *victim]) as job:
        job.wait_for_line("^ready")
        while not (found := job.pids(RANK=1)) or resident_mb(found[0]) < megabytes:
            time.sleep(0.01)
        time.sleep(0.1)  # from its memory to its sleep
        killed = time.monotonic_ns()
        os.kill(found[0], signal.SIGKILL)
        while (line := job.next_line()) is None or not line.startswith("stopped"):
            if line is None:
                job.read_more()
        return (int(line.split()[1]) - killed) / 1e6


def bench_death():
    ours, peer = [], []
    for _ in range(5):
        ours.append(time_to_stop(2048, True))
        peer.append(time_to_stop(2048, False))
    yield Row("2 GB worker's death -> peer's SIGTERM", "ms", ours, "without its channel", peer, "<= 5 ms",
              lambda mine, ratio: mine <= 5)


# ---- Death to the next training step

def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def time_to_next_step(command, came_back):
    """From the SIGKILL of rank 1 to the first step of the new round, in s; None where none came within a minute."""
    with Job(command, {"OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON}) as job:
        job.wait_for_line(r"^epoch 2 step 1 ")
        victim, = job.pids(RANK=1)
        job.wait_for_line(r"^epoch 2 step 5 ")
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        try:
            back = job.wait_for_line(came_back) and job.wait_for_line(r"^epoch \d+ step ")
        except RuntimeError:  # it ended instead
            back = None
        return back and (back - killed) / 1e9


def bench_step():
    arguments = ["1000", "1", "--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]
    ddprun = [DDPRUN, "--nproc_per_node=2"]
    # With --standalone torchrun never brings a gloo job back: its store is then the old one. A static one sometimes does.
    torchrun = [TORCHRUN, "--max-restarts=3", "--nproc_per_node=2"]
    ours, python, peer = [], [], []
    for _ in range(4):
        ours += [time_to_next_step([*ddprun, TRAIN, *arguments], "^resuming") for _ in range(3)]
        # The Python twin does not resume: its first step once more is the sign, its second is what is timed.
        python.append(time_to_next_step([*ddprun, PEER_SCRIPT, *arguments], "^epoch 1 step 1 "))
        static = [*torchrun, f"--master-port={free_port()}"]
        peer.append(time_to_next_step([*static, PEER_SCRIPT, *arguments], "^epoch 1 step 1 "))
    back = [seconds for seconds in peer if seconds is not None]
    peer_name = f"torchrun + Python ({len(back)} of {len(peer)} came back)"
    yield Row("death -> next step of train", "s", ours, peer_name, back, "<= 0.8 s", lambda mine, ratio: mine <= 0.8)
    yield Row("death -> next step, Python under both", "s", python, peer_name, back)


# ---- Training

def samples_per_second(command):
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        done = subprocess.run([*command, f"--snapshot={folder}/snapshot.pt"], capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON})
    if done.returncode != 0:
        sys.exit(f"bench: {' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return float(re.search(r"^done:.* ([\d.]+) samples/s", done.stdout, re.MULTILINE).group(1))


def bench_train():
    arguments = ["10", "1", "--device=cpu"]
    ours, peer = [], []
    for _ in range(5):
        ours.append(samples_per_second([DDPRUN, "--nproc_per_node=2", TRAIN, *arguments]))
        peer.append(samples_per_second([DDPRUN, "--nproc_per_node=2", PEER_SCRIPT, *arguments]))
    yield Row("training, 2 ranks, 1 thread each", "samples/s", ours, "Python DDP", peer, ">= 1.2x",
              lambda mine, ratio: ratio >= 1.2, higher_is_better=True)


# ---- All together

BENCHES = {"launch": bench_launch, "spawn": bench_spawn, "restart": bench_restart, "death": bench_death,
           "step": bench_step, "train": bench_train, "tee": lambda: tee.bench(Row, BIN, TORCHRUN)}


def print_table(rows):
    lines = [["what", "ddprun (median of)", "peer (median of)", "ratio", "goal", ""], *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", choices=[[], *BENCHES], default=[], metavar="|".join(BENCHES))
    parts = parser.parse_args().parts or list(BENCHES)
    folder = ROOT / "build/bench"
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for part in parts:
        print(f"bench: {part} ...", file=sys.stderr, flush=True)
        part_rows = list(BENCHES[part]())
        (folder / f"{part}.json").write_text(json.dumps([vars(row) for row in part_rows], indent=1) + "\n")
        rows += part_rows
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end")
    print_table(rows)


if __name__ == "__main__":
    main()
