"""The SIGKILL of a worker: until the new workers' first line, or where it holds memory until another one gets its SIGTERM."""
import os
import random
import signal
import time

from job import Job
from table import Row, at_most
from tools import BIN, ddprun, in_turns, torchrun

WORKER = str(BIN / "stamp_worker")
MIB = 2048


def time_of_restart(launcher):
    """From the SIGKILL of one of two sleeping workers to the first line of the later of the two new ones, in ms."""
    with Job([*launcher, WORKER, "FOLDER"]) as job:
        first = job.stamps(2)
        time.sleep(random.uniform(0.1, 0.3))  # who polls is met at any moment of the period
        killed = time.monotonic_ns()
        os.kill(min(first), signal.SIGKILL)
        new = {pid: at for pid, at in job.stamps(4).items() if pid not in first}
        return (max(new.values()) - killed) / 1e6


def bench_restart(samples):
    ours = [time_of_restart(ddprun(2)) for _ in range(samples(20))]
    peer = [time_of_restart(torchrun(2, restarts=3)) for _ in range(samples(5))]
    yield Row("death -> new workers' first line", "ms", ours, "torchrun", peer, at_most(10, "ms"))


def time_to_signal(launcher, how):
    """In ms."""
    with Job([*launcher, WORKER, "FOLDER", str(MIB), how]) as job:
        victim, = job.stamps(1, "heavy-")
        job.stamps(1, "light-")
        time.sleep(0.2)  # who polls has settled into it
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        signalled, = job.stamps(1, "signalled-").values()
        return (signalled - killed) / 1e6


def bench(samples):
    attached, apart = in_turns(samples(3) * samples(4), *(
        lambda how=how: time_to_signal(ddprun(2, "--max-restarts=0"), how) for how in ("attach", "apart")))
    peer = [time_to_signal(torchrun(2), "apart") for _ in range(samples(3))]
    what = f"a worker of {MIB // 1024} GB dies -> the other is signalled"
    yield Row(what, "ms", attached, "without the channel", apart, at_most(5, "ms"))
    yield Row(what + ", without the channel", "ms", apart, "torchrun", peer)
