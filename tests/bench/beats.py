"""What the worker channel's beats cost: each report in C and Python, all of a step of a millisecond, watch() in a step of
Python DDP, and a step of the library's DDP beside the same job without a channel.

  beats.py python COUNT     the nanoseconds of a beat and of a wait's two
  beats.py steps STEPS      a step of a millisecond, as many with and without reports, in turns
  beats.py watch STEPS      a step of Python DDP, as many with and without watch(), in turns

A step's figure is the processor time in microseconds of the quarter of them that is least disturbed: other work of the machine
moves it little.
"""
import contextlib
import json
import os
import pathlib
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

from ddp import OURS
from job import Ranks
from table import Row, at_most, times
from tools import BIN, PYTHON, ROOT, in_turns

PAGE_BYTES = 4096
VARIABLE = "DDPRUN_CHANNEL_FD"
TURNS, TURN_STEPS = 40, 300
SAMPLES, STEP_SAMPLES = 15, 5
STEP_GOAL = 1  # %
REPEATS = 40  # the best of them: other work of the machine is not ours


def make_page():
    """An agent's, so far as a worker looks."""
    fd = os.memfd_create("page")
    os.ftruncate(fd, PAGE_BYTES)
    os.pwrite(fd, struct.pack("QII", 0x6C6E6863706464, 1, PAGE_BYTES), 0)
    os.set_inheritable(fd, True)
    return fd


def attached_channel():
    """As installed: worker_channel.py finds its library."""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as tree:
        shared = pathlib.Path(tree, "share/ddprun")
        shared.mkdir(parents=True)
        shutil.copy(ROOT / "rendezvous/channel/worker_channel.py", shared)
        pathlib.Path(tree, "lib").symlink_to(ROOT / "build/release/lib")
        sys.path.insert(0, str(shared))
        import worker_channel
        os.environ[VARIABLE] = str(make_page())
        assert worker_channel.attach() and worker_channel._library_beat
    return worker_channel


def python_costs(count):
    channel = attached_channel()

    def nanoseconds(report):
        def mean():
            begin = time.thread_time_ns()
            for _ in range(count):
                report()
            return (time.thread_time_ns() - begin) / count
        return min(mean() for _ in range(REPEATS))
    return {"beat": nanoseconds(lambda: channel.beat(channel.LOAD)),
            "wait": nanoseconds(lambda: channel.beat(channel.begin_wait("reduce")))}


def steps_in_turns(steps, plain, reporting):
    took = [[], []]
    for number in range(steps):
        for which, step in list(enumerate((plain, reporting)))[::1 if number % 2 else -1]:
            begin = time.thread_time_ns()
            step(number)
            took[which].append((time.thread_time_ns() - begin) / 1000)
    return dict(zip(("plain", "reporting"), (statistics.quantiles(each, n=4)[0] for each in took)))


def compute(rounds):
    value = 1
    for _ in range(rounds):
        value = value * 3 % 1000003
    return value


def rounds_of(us):
    """So many take so long."""
    rounds, took = 1000, []
    for _ in range(REPEATS):
        begin = time.thread_time_ns()
        compute(rounds)
        took.append((time.thread_time_ns() - begin) / 1000)
    return int(rounds * us / min(took))


def step_costs(steps):
    channel = attached_channel()
    channel.phase(channel.TRAINING)
    rounds = rounds_of(250)

    def plain(number):
        for _ in range(4):
            compute(rounds)

    def reporting(number):
        channel.beat(channel.LOAD)
        compute(rounds)
        channel.beat(channel.COMPUTE)
        compute(rounds)
        for collective in ("buffers", "grads"):
            with channel.wait(collective):
                compute(rounds)
        channel.step(number)
    return steps_in_turns(steps, plain, reporting)


def watch_costs(steps):
    import torch
    from torch import distributed, nn
    from torch.nn.parallel import DistributedDataParallel
    from torch.optim.optimizer import _global_optimizer_post_hooks
    torch.set_num_threads(1)
    channel = attached_channel()
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    models = [DistributedDataParallel(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))) for _ in range(2)]
    optimizers = [torch.optim.SGD(model.parameters(), 0.1) for model in models]
    channel.watch(models[1])
    watched = dict(_global_optimizer_post_hooks)
    inputs = torch.randn(4, 8)

    def step(which):
        _global_optimizer_post_hooks.clear()
        if which == 1:
            _global_optimizer_post_hooks.update(watched)
        optimizers[which].zero_grad()
        models[which](inputs).square().mean().backward()
        optimizers[which].step()
    return steps_in_turns(steps, lambda _: step(0), lambda _: step(1))


def answer(command):
    page = make_page()
    try:
        return json.loads(subprocess.run(list(map(str, command)), env={**os.environ, VARIABLE: str(page)},
                                         pass_fds=[page], check=True, capture_output=True, text=True).stdout)
    finally:
        os.close(page)


def reports(samples):
    for name, goal, command in [("C", 100, [BIN / "beat_loop", 10_000]),
                                ("Python", 1000, [PYTHON, __file__, "python", 1000])]:
        seen = [answer(command) for _ in range(samples(SAMPLES))]
        yield Row(f"a beat, {name}", "ns", [one["beat"] for one in seen], goal=at_most(goal, "ns"))
        yield Row(f"a wait's two beats, {name}", "ns", [one["wait"] for one in seen])
    for name, command in [("C++ library", [BIN / "beat_loop", 1000, "steps"]),
                          ("Python", [PYTHON, __file__, "steps", 1000])]:
        seen = [answer(command) for _ in range(samples(STEP_SAMPLES))]
        yield Row(f"seven reports in a step of 1 ms, {name}", "%",
                  [100 * (one["reporting"] / one["plain"] - 1) for one in seen], goal=at_most(STEP_GOAL, "%"))
    seen = [answer([PYTHON, __file__, "watch", 2000]) for _ in range(samples(STEP_SAMPLES))]
    yield Row("watch() in a step of Python DDP", "us", [one["reporting"] - one["plain"] for one in seen])


def training(samples):
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddprun-bench-"))
        pages = [make_page(), make_page()]
        jobs = [stack.enter_context(Ranks(2, OURS, "turns", folder, "tiny", pages=each)) for each in (pages, [])]
        for job in jobs:
            job.answer()
        turns = in_turns(samples(TURNS), *(lambda job=job: job.turn("tiny", TURN_STEPS, "plain")["seconds"] for job in jobs))
    ours, without = ([1000 * seconds / TURN_STEPS for seconds in each] for each in turns)
    yield Row("a step of a tiny net, 2 ranks", "ms", ours, "without a channel", without, times(0.99))


def bench(samples):
    yield from reports(samples)
    yield from training(samples)


if __name__ == "__main__":
    print(json.dumps({"python": python_costs, "steps": step_costs, "watch": watch_costs}[sys.argv[1]](int(sys.argv[2]))))
