"""Snapshots in memory: what one after each step costs training, and a death to the next step with them and a template."""
import os
import struct
import tempfile

from ddp import KEPT_GOAL, LARGER, OURS, SMALL, Saving, in_ranks
from job import Ranks
from table import Row, at_least, at_most, times
from tools import ddprun, in_turns
from trainer import LOGGED, TRAIN, samples_per_second, time_to_next_step

MAGIC, PAGE = 0x70616E73706464, 4096
BYTES = 256 << 20
NETS = {"larger": (30, f"49 MB, {LARGER}"), "small": (60, f"0.3 MB, {SMALL}")}
TURNS = 10
RESNET = ["2", "10", "--dataset=synthetic", "--set", "data.samples=512", "--model=resnet18", "--evaluate-every=100", "--device=cpu"]


def make_memory(areas):
    """An agent's, so far as a worker looks (rendezvous/memory/snapshot_memory.h)."""
    fd = os.memfd_create("snapshots")
    os.ftruncate(fd, PAGE + 2 * areas * (PAGE + BYTES // 2))
    os.pwrite(fd, struct.pack("5Q", MAGIC, 1, areas, BYTES, 0), 0)
    return fd


def cost(samples, count):
    memory = make_memory(count + 1)
    try:
        with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
            with Ranks(count, OURS, "turns", folder, *NETS, memory=memory) as ranks:
                ranks.answer()
                for net, (steps, what) in NETS.items():
                    saving = Saving(ranks, "memory", samples(TURNS), net, steps)
                    where = f"in memory after each step, {what}: {in_ranks(count)}"
                    yield Row(f"{where}: throughput kept", "%", saving.kept, goal=at_least(KEPT_GOAL, "%"))
                    yield Row(f"{where}: holds training", "ms", saving.held)
    finally:
        os.close(memory)


def bench(samples):
    for count in (1, 2):
        yield from cost(samples, count)
    with_memory, without = in_turns(samples(3), *(
        lambda words=words: samples_per_second(ddprun(2, *words, TRAIN, *RESNET)) for words in (["--memory-snapshots=512M"], [])))
    yield Row("in memory after each step, 89 MB, resnet18, 32x32x3, batches of 32: 2 ranks", "samples/s", with_memory,
              "no snapshot", without, times(KEPT_GOAL / 100))
    for words, what in (["--prefork"], "prefork"), (["--prefork", "--in-process"], "prefork, survivors stay"):
        command = ddprun(2, *words, "--memory-snapshots=64M", TRAIN, "1000", "1000", *LOGGED)
        seconds = [time_to_next_step(command, "^resuming from memory") for _ in range(samples(9))]
        yield Row(f"death -> next step of train, {what}, from memory", "s", seconds, goal=at_most(0.12, "s"))
