"""The library beside PyTorch's own DistributedDataParallel: ddp_load.cpp and ddp_load.py, the same nets, batches and steps.

Both sides' jobs are there at once and take turns of a second, one waits while the other trains.
"""
import contextlib
import statistics
import tempfile

from job import Ranks
from table import Row, at_least, times
from tools import BIN, PYTHON, ROOT, in_turns

OURS, PEER = [str(BIN / "ddp_load")], [PYTHON, str(ROOT / "tests/bench/ddp_load.py")]
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


def training(samples, count, sides):
    for net, (steps, goal, what) in NETS.items():
        turns = in_turns(samples(TURNS), *(lambda side=side: side.turn(net, steps, "plain") for side in sides))
        ours, peer = ([turn["samples"] / turn["seconds"] for turn in each] for each in turns)
        yield Row(f"training, {what}: {in_ranks(count)}", "samples/s", ours, "Python DDP", peer, times(goal))


class Saving:
    """Turns with a snapshot, each beside one without: whatever else the machine does, it does to both."""

    def __init__(self, side, way, turns, net="larger", steps=STEPS_OF_A_SAVE):
        side.turn(net, steps, way)  # the first one makes its buffers
        plain, saving = in_turns(turns, *(lambda each=each: side.turn(net, steps, each) for each in ("plain", way)))
        self.kept = [100 * without["seconds"] / took["seconds"] for without, took in zip(plain, saving)]  # of the throughput, in %
        self.held = [1000 * took["held_seconds"] for took in saving]  # in ms


def save_stall(samples, count, sides):
    what = f"49 MB saved every 10 steps, {LARGER}: {in_ranks(count)}"
    ours, *others = [Saving(sides[way == "torch.save"], way, samples(turns)) for way, turns in SAVING_TURNS.items()]
    goal = [at_least(KEPT_GOAL, "%")]
    for way, saving in zip(list(SAVING_TURNS)[1:], others):
        yield Row(f"{what}: throughput kept", "%", ours.kept, way, saving.kept, *goal)
        yield Row(f"{what}: save() holds training", "ms", ours.held, way, saving.held)
        goal = []
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
                      [rates[place] for rates in peer])


def bench(samples):
    for count in (1, 2):
        with both_sides(count, *NETS) as sides:
            yield from training(samples, count, sides)
            yield from save_stall(samples, count, sides)
    yield from overlap(samples)
    yield from loader(samples)
