"""The library beside PyTorch's own DistributedDataParallel: ddp_load.cpp and ddp_load.py, the same nets, batches and steps.

A thread for each rank. Both sides' jobs are there at once and take turns of a second, one waits while the other trains.
But for the first step, the ranks are started with a plain environment, before whatever else runs on this machine.
"""
import contextlib
import json
import os
import select
import statistics
import subprocess
import tempfile
import time

from table import Row
from tools import BIN, PYTHON, ROOT, TORCHRUN, ddprun, free_port, raise_priority

DDP_LOAD = str(BIN / "ddp_load")
PEER_SCRIPT = str(ROOT / "tests/bench/ddp_load.py")
OURS, PEER = [DDP_LOAD], [PYTHON, PEER_SCRIPT]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
LIMIT = 120  # s, for an answer
SMALL = "two convolutions, 28x28x1, batches of 32"
LARGER = "VGG-11 of 6.1 M parameters, 32x32x3, batches of 16"
NETS = {  # of ddp_load: (steps of a turn, goal, in words)
    "small": (30, 1.2, f"{SMALL}, in memory"),
    "loaded": (30, 1.2, f"{SMALL}, by sampler and loader"),
    "larger": (3, 1.0, f"{LARGER}, in memory"),
}
TURNS = 8
SAVING_TURNS = {"asynchronous": 8, "synchronous": 3, "torch.save": 3}
STEPS_OF_A_SAVE = 10
KEPT_GOAL = 98  # %
BUCKETS = {0: "PyTorch's buckets", 4 << 20: "buckets of 4 MiB"}
OVERLAP_STEPS = 11  # ten of them are sampled
LOADER_SECONDS = 0.6
LOADER_THREADS = (0, 1, 2)


def in_ranks(count):
    return f"{count} rank{'s' if count > 1 else ''}"


class Ranks:
    """A job of so many; nothing of it is left at the end."""

    def __init__(self, count, command, *words, pages=(), memory=None):
        """`pages`: descriptors of the ranks' worker channels; `memory`: of what they share for snapshots."""
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count),
                 "LOCAL_WORLD_SIZE": str(count)}
        channel = [{"DDPRUN_CHANNEL_FD": str(page)} for page in pages] or [{}] * count
        kept = {"DDPRUN_SNAPSHOT_MEMORY": f"{memory}:0"} if memory is not None else {}
        self.workers = [subprocess.Popen(
            [*command, *map(str, words)], text=True, start_new_session=True, preexec_fn=raise_priority,
            pass_fds=[*pages, *([memory] if memory is not None else [])],
            env={**os.environ, **ONE_THREAD, **place, **channel[rank], **kept, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers:
            worker.kill()
            worker.communicate()

    def answer(self):
        """Rank 0's next line."""
        first = self.workers[0]
        if not select.select([first.stdout], [], [], LIMIT)[0]:
            raise RuntimeError(f"{first.args} says nothing for {LIMIT} s")
        line = first.stdout.readline()
        if not line:
            raise RuntimeError(f"{first.args} ended:\n{first.stderr.read()}")
        return json.loads(line)

    def turn(self, *words):
        for worker in self.workers:
            print(*words, file=worker.stdin, flush=True)
        return self.answer()


def answer(count, command, *words):
    with Ranks(count, command, *words) as ranks:
        return ranks.answer()


@contextlib.contextmanager
def both_sides(count, *nets):
    """Their jobs, warm."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        with Ranks(count, OURS, "turns", folder, *nets) as ours, Ranks(count, PEER, "turns", folder, *nets) as peer:
            for side in (ours, peer):
                side.answer()
            yield ours, peer


def rate(turn):
    return turn["samples"] / turn["seconds"]


def training(samples, count, sides):
    seen = {net: ([], []) for net in NETS}
    for number in range(samples(TURNS)):
        for net, (steps, *_) in NETS.items():
            for rates, side in list(zip(seen[net], sides))[::-1 if number % 2 else 1]:
                rates.append(rate(side.turn(net, steps, "plain")))
    for net, (_, goal, what) in NETS.items():
        yield Row(f"training, {what}: {in_ranks(count)}", "samples/s", seen[net][0], "Python DDP", seen[net][1],
                  f">= {goal}x", lambda mine, ratio, goal=goal: ratio >= goal, higher_is_better=True)


def seconds_to_first_step(command):
    began = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True, timeout=LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stderr}")
    return float(done.stdout) - began


def first_step(samples):
    ours, peer = [], []
    for _ in range(samples(3)):
        ours += [seconds_to_first_step(ddprun(2, DDP_LOAD, "first")) for _ in range(samples(2))]
        peer.append(seconds_to_first_step([TORCHRUN, "--standalone", "--nproc_per_node=2", PEER_SCRIPT, "first"]))
    yield Row("command -> first step done, 2 ranks", "s", ours, "torchrun + Python", peer, ">= 5x",
              lambda mine, ratio: ratio >= 5)


class Saving:
    """Turns with a snapshot, each beside one without: whatever else the machine does, it does to both."""

    def __init__(self, side, way, turns, net="larger", steps=STEPS_OF_A_SAVE):
        self.kept, self.held = [], []  # of the throughput, in %; in ms
        side.turn(net, steps, way)  # the first one makes its buffers
        for number in range(turns):
            ways = ["plain", way][::1 if number % 2 else -1]
            took = {each: side.turn(net, steps, each) for each in ways}
            self.kept.append(100 * took["plain"]["seconds"] / took[way]["seconds"])
            self.held.append(1000 * took[way]["held_seconds"])


def save_stall(samples, count, sides):
    what = f"49 MB saved every 10 steps, {LARGER}: {in_ranks(count)}"
    ours, *others = [Saving(sides[way == "torch.save"], way, samples(turns)) for way, turns in SAVING_TURNS.items()]
    goal = (f">= {KEPT_GOAL} %", lambda mine, ratio: mine >= KEPT_GOAL)
    for way, saving in zip(list(SAVING_TURNS)[1:], others):
        yield Row(f"{what}: throughput kept", "%", ours.kept, way, saving.kept, *goal, higher_is_better=True)
        yield Row(f"{what}: save() holds training", "ms", ours.held, way, saving.held)
        goal = ()
    if len(ours.kept) > 1:
        low, _, high = statistics.quantiles(ours.kept)
        yield Row(f"{what}: throughput kept, spread of the middle half", "points", [high - low])


def overlap(samples):
    for size, name in BUCKETS.items():
        seen = [answer(2, OURS, "overlap", "larger", OVERLAP_STEPS, size) for _ in range(samples(2))]
        what = f"communication of a step, {LARGER}, {name}: 2 ranks"
        yield Row(what, "ms", [step["seconds"] * 1000 for step in seen])
        yield Row(f"{what}: hidden behind backward", "%", [step["hidden"] * 100 for step in seen])


def loader(samples):
    ways = {"torch": "by torch operations", "loop": "by a loop over the bytes"}
    ours, peer = {way: [] for way in ways}, []
    for _ in range(samples(2)):
        for way, rates in ours.items():
            rates.append(answer(1, OURS, "loader", way, LOADER_SECONDS, *LOADER_THREADS))
        peer.append(answer(1, PEER, "loader", LOADER_SECONDS, *LOADER_THREADS))
    for way, words in ways.items():
        for place, threads in enumerate(LOADER_THREADS):
            yield Row(f"loader: crop, flip, normalise 32x32x3 {words}, {threads} threads", "samples/s",
                      [rates[place] for rates in ours[way]], f"DataLoader, {threads} workers",
                      [rates[place] for rates in peer], higher_is_better=True)


def bench(samples):
    for count in (1, 2):
        with both_sides(count, *NETS) as sides:
            yield from training(samples, count, sides)
            yield from save_stall(samples, count, sides)
    for part in (first_step, overlap, loader):
        yield from part(samples)
