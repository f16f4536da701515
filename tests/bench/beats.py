"""What the worker channel's beats cost: each report in C and Python, watch() in a step of Python DDP, and the library's own
beats in steps of about a millisecond, beside the same job without a channel.

  beats.py python COUNT     the nanoseconds of a beat and of a wait's two
  beats.py watch STEPS      the microseconds that watch() adds to a step: pairs of steps, one of them watched
"""
import contextlib
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile
import time

PAGE_BYTES = 4096
VARIABLE = "DDPRUN_CHANNEL_FD"
SOURCE = pathlib.Path(__file__).resolve().parents[2]
TURNS, TURN_STEPS = 40, 300
SAMPLES = 15
REPEATS = 40  # the best of them: other work of the machine is not ours


def make_page():
    """An agent's, so far as a worker looks."""
    fd = os.memfd_create("page")
    os.ftruncate(fd, PAGE_BYTES)
    os.pwrite(fd, struct.pack("QII", 0x6C6E6863706464, 1, PAGE_BYTES), 0)
    os.set_inheritable(fd, True)
    return fd


def attached_channel():
    sys.path.insert(0, str(SOURCE / "rendezvous/channel"))
    import worker_channel
    os.environ[VARIABLE] = str(make_page())
    assert worker_channel.attach()
    return worker_channel


def python_costs(count):
    channel = attached_channel()

    def nanoseconds(report):
        def mean():
            begin = time.perf_counter_ns()
            for _ in range(count):
                report()
            return (time.perf_counter_ns() - begin) / count
        return min(mean() for _ in range(REPEATS))
    return {"beat": nanoseconds(lambda: channel.beat(channel.LOAD)),
            "wait": nanoseconds(lambda: channel.beat(channel.begin_wait("reduce")))}


def watch_cost(steps):
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
    hooks = [{}, dict(_global_optimizer_post_hooks)]
    inputs = torch.randn(4, 8)
    took = [[], []]
    for number in range(steps):
        for which in (0, 1)[::1 if number % 2 else -1]:
            _global_optimizer_post_hooks.clear()
            _global_optimizer_post_hooks.update(hooks[which])
            begin = time.perf_counter_ns()
            optimizers[which].zero_grad()
            models[which](inputs).square().mean().backward()
            optimizers[which].step()
            took[which].append(time.perf_counter_ns() - begin)
    plain, watched = (statistics.quantiles(each, n=4)[0] for each in took)  # the quarter that is least disturbed
    return (watched - plain) / 1000


def answer(command):
    page = make_page()
    try:
        return json.loads(subprocess.run(list(map(str, command)), env={**os.environ, VARIABLE: str(page)},
                                         pass_fds=[page], check=True, capture_output=True, text=True).stdout)
    finally:
        os.close(page)


def reports(samples):
    from table import Row
    from tools import BIN, PYTHON
    for name, goal, command in [("C", 100, [BIN / "beat_loop", 10_000]),
                                ("Python", 1000, [PYTHON, __file__, "python", 1000])]:
        seen = [answer(command) for _ in range(samples(SAMPLES))]
        yield Row(f"a beat, {name}", "ns", [one["beat"] for one in seen], goal=f"<= {goal} ns",
                  reached=lambda mine, _, goal=goal: mine <= goal)
        yield Row(f"a wait's two beats, {name}", "ns", [one["wait"] for one in seen])
    yield Row("watch() in a step of Python DDP", "us",
              [answer([PYTHON, __file__, "watch", 2000]) for _ in range(samples(3))])


def training(samples):
    from ddp import OURS, Ranks
    from table import Row
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddprun-bench-"))
        pages = [make_page(), make_page()]
        jobs = [stack.enter_context(Ranks(2, OURS, "turns", folder, "tiny", pages=each)) for each in (pages, [])]
        for job in jobs:
            job.answer()
        took = ([], [])
        for number in range(samples(TURNS)):
            for seconds, job in list(zip(took, jobs))[::-1 if number % 2 else 1]:
                seconds.append(1000 * job.turn("tiny", TURN_STEPS, "plain")["seconds"] / TURN_STEPS)
    yield Row("a step of a tiny net, 2 ranks", "ms", took[0], "without a channel", took[1], ">= 0.99x",
              lambda mine, ratio: ratio >= 0.99)


def bench(samples):
    yield from reports(samples)
    yield from training(samples)


if __name__ == "__main__":
    print(json.dumps({"python": python_costs, "watch": watch_cost}[sys.argv[1]](int(sys.argv[2]))))
