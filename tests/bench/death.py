"""The SIGKILL of a worker that holds memory, until another one gets its SIGTERM."""
import os
import signal
import time

from job import Job
from table import Row
from tools import BIN, ddprun, torchrun

MIB = 2048


def time_to_signal(launcher, how):
    """In ms."""
    with Job([*launcher, str(BIN / "heavy_worker"), "FOLDER", str(MIB), how]) as job:
        victim, = job.stamps(1, "heavy-")
        job.stamps(1, "light-")
        time.sleep(0.2)  # who polls has settled into it
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        signalled, = job.stamps(1, "signalled-").values()
        return (signalled - killed) / 1e6


def bench(samples):
    attached, apart, peer = [], [], []
    for _ in range(samples(3)):
        for _ in range(samples(4)):
            attached.append(time_to_signal(ddprun(2, "--max-restarts=0"), "attach"))
            apart.append(time_to_signal(ddprun(2, "--max-restarts=0"), "apart"))
        peer.append(time_to_signal(torchrun(2), "apart"))
    what = f"a worker of {MIB // 1024} GB dies -> the other is signalled"
    yield Row(what, "ms", attached, "without the channel", apart, "<= 5 ms", lambda mine, ratio: mine <= 5)
    yield Row(what + ", without the channel", "ms", apart, "torchrun", peer)
