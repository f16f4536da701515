"""Measures tee: eight workers write lines at once, through the launcher, into files and, prefixed, onto one console.

The whole run holds the launcher's start, 2.4 s of torchrun's. Net of an empty run, made just before, is what the lines
cost; its processor time, workers included, is what a busy machine leaves comparable. A worker that makes a write of each
line is itself most of that, under both launchers; one whose C library buffers shows the tee alone.
"""
import os
import resource
import subprocess
import tempfile
import time

from table import Row
from tools import BIN, DDPRUN, TORCHRUN

LINES = 100_000
WORKERS = 8


def run(launcher, writer, lines, how):
    """(seconds, processor seconds)"""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        command = [*launcher, f"--nproc_per_node={WORKERS}", f"--log-dir={folder}/logs", "--tee=3", writer, str(lines), how]
        with open(f"{folder}/console", "wb") as console:
            before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.DEVNULL)
            took, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        with open(f"{folder}/console", "rb") as console:
            printed = sum(1 for _ in console)
        if printed != lines * WORKERS:
            raise RuntimeError(f"{os.path.basename(launcher[0])} printed {printed} of {lines * WORKERS} lines")
        return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench(samples):
    writer = str(BIN / "line_writer")
    launchers = {"ours": [DDPRUN], "peer": [TORCHRUN, "--standalone", "--no-python"]}
    for how, text in (("buffered", "buffered by libc"), ("single", "a write each")):
        whole, net, cpu = ({"ours": [], "peer": []} for _ in range(3))
        for _ in range(samples(3)):
            for name, launcher in launchers.items():
                empty, full = run(launcher, writer, 0, how), run(launcher, writer, LINES, how)
                whole[name].append(full[0])
                net[name].append(full[0] - empty[0])
                cpu[name].append(full[1] - empty[1])
        goal = (">= 5x", lambda mine, ratio: ratio >= 5)
        what = f"tee {WORKERS} x {LINES:,} lines, {text}"
        yield Row(what, "s", whole["ours"], "torchrun", whole["peer"], *goal)
        yield Row(f"{what}: net of an empty run", "s", net["ours"], "torchrun", net["peer"],
                  *(goal if how == "buffered" else ()))
        yield Row(f"{what}: processor time", "s", cpu["ours"], "torchrun", cpu["peer"])
