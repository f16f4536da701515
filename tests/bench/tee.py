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

from table import Row, times
from tools import BIN, DDPRUN, TORCHRUN, in_turns

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


def net_and_whole(launcher, writer, how):
    """Seconds of a whole run, seconds and processor seconds net of an empty one."""
    empty, full = run(launcher, writer, 0, how), run(launcher, writer, LINES, how)
    return full[0], full[0] - empty[0], full[1] - empty[1]


def bench(samples):
    writer = str(BIN / "line_writer")
    launchers = [DDPRUN], [TORCHRUN, "--standalone", "--no-python"]
    for how, text in (("buffered", "buffered by libc"), ("single", "a write each")):
        ours, peer = in_turns(samples(3), *(lambda each=each: net_and_whole(each, writer, how) for each in launchers))
        what = f"tee {WORKERS} x {LINES:,} lines, {text}"
        goals = [times(5)], [times(5)] if how == "buffered" else [], []
        for name, goal, mine, theirs in zip(("", ": net of an empty run", ": processor time"), goals, zip(*ours), zip(*peer)):
            yield Row(what + name, "s", mine, "torchrun", theirs, *goal)
