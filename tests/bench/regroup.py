"""Nodes join, leave and die: from the change until all ranks of the next world train, over three hosts (scripts/hosts.sh)."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from table import Row, at_most
from tools import BIN, DDPRUN, ROOT

HOSTS = str(ROOT / "scripts/hosts.sh")
LIMIT = 30  # seconds, of every wait
KILLS = 100
HEARTBEAT_MS = 10  # a worker's beats, by host_worker.cpp: it may have been told so long after its last one
OPTIONS = ["--nnodes=1:3", "--exclude-after=0", "--rdzv-backend=c10d", "--rdzv-endpoint=host0:29400", "--rdzv-id=bench",
           "--rdzv-conf=last_call_timeout=1", f"--max-restarts={KILLS}"]


class HostJob:
    COUNT, OPTIONS, PROGRAM = 3, OPTIONS, [str(BIN / "host_worker")]

    def __init__(self):
        self.set = f"{os.getpid()}-bench"
        self.folder = tempfile.mkdtemp(prefix="ddprun-bench-")
        self.nodes = {}
        self.hosts("up", self.COUNT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pathlib.Path(self.folder, "go").touch()
        for node in self.nodes.values():
            try:
                node.wait(10)
            except subprocess.TimeoutExpired:
                node.kill()
                node.wait()
        self.hosts("down")
        shutil.rmtree(self.folder, ignore_errors=True)

    def hosts(self, command, *words):
        subprocess.run([HOSTS, command, self.set, *map(str, words)], check=True)

    def start(self, host):
        if host in self.nodes:
            self.nodes[host].wait(LIMIT)
        with open(pathlib.Path(self.folder, f"output-{host}"), "ab") as output:
            self.nodes[host] = subprocess.Popen(
                [HOSTS, "exec", self.set, str(host), *self.command(host)], cwd=self.folder,
                env={**os.environ, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def command(self, host):
        return [DDPRUN, *self.OPTIONS, f"--node-rank={host}", *self.PROGRAM]

    def child(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def kill(self, host, who, how=signal.SIGKILL):
        keeper = self.nodes[host].pid
        agent = self.child(keeper)
        worker = self.child(agent)
        for pid in {"worker": [worker], "agent": [agent], "node": [keeper, agent, worker]}[who]:
            os.kill(pid, how)

    def beats(self):
        """[(ns, round, rank, world)], of whole lines."""
        path = pathlib.Path(self.folder, "beats")
        text = path.read_text() if path.exists() else ""
        return [tuple(map(int, line.split()[:4])) for line in text[:text.rfind("\n") + 1].splitlines()]

    def world_after(self, size, since):
        """When the last rank of a new round of that size began to train."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            first, world = {}, {}
            for when, round_, rank, ranks in self.beats():
                first.setdefault((round_, rank), when)
                world[round_] = ranks
            last = max(world, default=0)
            ranks = [when for (round_, _), when in first.items() if round_ == last]
            if last and world[last] == size == len(ranks) and min(ranks) > since:
                return max(ranks)
            time.sleep(0.005)
        raise RuntimeError(f"no world of {size} within {LIMIT} s")

    def change(self, size, make):
        since = time.monotonic_ns()
        make()
        return (self.world_after(size, since) - since) / 1e6


class SpareJob(HostJob):
    """Two hosts train, and the third one is a spare."""
    OPTIONS = ["--nnodes=2", "--spares=1", "--master-addr=host0", "--rdzv-id=bench", "--prefork", "--memory-snapshots=64M"]
    PROGRAM = [str(BIN / "train"), "1000", "1000", "--log-every=1", "--device=cpu", "--snapshot=snapshot.pt"]

    def __exit__(self, *_):
        for host in self.nodes:
            self.kill_host(host)
        super().__exit__()

    def kill_host(self, host):
        found = subprocess.run(["ip", "netns", "pids", f"ddprun-{self.set}-{host}"], capture_output=True, text=True, check=True)
        for pid in map(int, found.stdout.split()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait_for(self, host, pattern, begin=0):
        """When it was said, and where in the output it ends."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            text = pathlib.Path(self.folder, f"output-{host}").read_text()
            if found := re.compile(pattern, re.MULTILINE).search(text, begin):
                return time.monotonic(), found.end()
            time.sleep(0.001)
        raise RuntimeError(f"host {host} does not say {pattern!r}:\n{text[-2000:]}")

    def time_to_next_step(self):
        for host in 0, 1:
            self.start(host)
        self.wait_for(0, "^epoch 1 step 1 ")
        self.start(2)
        self.wait_for(2, "this one is a spare")
        _, begin = self.wait_for(0, r"^epoch \d+ step 5 ")
        killed = time.monotonic()
        self.kill_host(1)
        _, begin = self.wait_for(0, "^resuming from memory", begin)
        return self.wait_for(0, r"^epoch \d+ step ", begin)[0] - killed


def spare_times(samples):
    times = []
    for _ in range(samples(5)):
        with SpareJob() as job:
            times.append(job.time_to_next_step())
    return times


def run_scenario(figures):
    with HostJob() as job:
        def note(what, size, make):
            figures.setdefault(what, []).append(job.change(size, make))

        job.change(1, lambda: job.start(0))  # after the last call
        note("two nodes join one", 3, lambda: [job.start(host) for host in (1, 2)])
        note("a node of three leaves (SIGTERM)", 2, lambda: job.nodes[1].terminate())
        note("a node joins two", 3, lambda: job.start(1))
        note("a worker is killed", 3, lambda: job.kill(1, "worker"))
        note("an agent is killed", 2, lambda: job.kill(1, "agent"))
        job.change(3, lambda: job.start(1))
        note("a node is killed", 2, lambda: job.kill(1, "node"))
        job.change(3, lambda: job.start(1))
        note("a node is cut off: the lease of 5 s and a second", 2, lambda: job.hosts("cut", 2))
        note("its link is mended", 3, lambda: job.hosts("mend", 2))


def stop_notice_times(samples):
    """From a worker's death until the last of the other hosts' workers is told: at the latest, in ms."""
    times = []
    with HostJob() as job:
        job.change(3, lambda: [job.start(host) for host in range(3)])
        for kill in range(samples(KILLS)):
            since = time.monotonic_ns()
            # The same failure twice before any progress would end the job.
            job.kill(kill % 3, "worker", signal.SIGSEGV if kill % 2 else signal.SIGKILL)
            job.world_after(3, since)
            beats = job.beats()
            ended = max(round_ for when, round_, *_ in beats if when < since)
            times.append((max(when for when, round_, *_ in beats if round_ == ended) - since) / 1e6 + HEARTBEAT_MS)
    return times


def bench(samples):
    times = sorted(stop_notice_times(samples))
    p99 = times[int(0.99 * (len(times) - 1))]
    what = "a worker is killed -> the other hosts' workers are told to stop, the last of them"
    yield Row(what, "ms", times)
    yield Row(f"{what}: p99 of {len(times)}", "ms", [p99], goal=at_most(50, "ms"))
    yield Row("a node is lost -> the next step of train, by a spare, prefork, from memory", "s", spare_times(samples), goal=at_most(1, "s"))
    figures = {}
    for _ in range(samples(10)):
        run_scenario(figures)
    for what, times in figures.items():
        yield Row(f"{what} -> all ranks train", "ms", times, goal=at_most(7_000 if "lease" in what else 2_000, "ms"))
