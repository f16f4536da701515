"""A worker's death to the new workers' first line."""
import os
import random
import signal
import time

from job import Job
from table import Row
from tools import BIN, ddprun, torchrun


def time_of_restart(launcher):
    """From the SIGKILL of one of two sleeping workers to the first line of the later of the two new ones, in ms."""
    with Job([*launcher, str(BIN / "stamp_worker"), "FOLDER"]) as job:
        first = job.stamps(2)
        time.sleep(random.uniform(0.1, 0.3))  # who polls is met at any moment of the period
        killed = time.monotonic_ns()
        os.kill(min(first), signal.SIGKILL)
        new = {pid: at for pid, at in job.stamps(4).items() if pid not in first}
        return (max(new.values()) - killed) / 1e6


def bench(samples):
    ours = [time_of_restart(ddprun(2)) for _ in range(samples(20))]
    peer = [time_of_restart(torchrun(2, restarts=3)) for _ in range(samples(5))]
    yield Row("death -> new workers' first line", "ms", ours, "torchrun", peer, "<= 10 ms", lambda mine, ratio: mine <= 10)
