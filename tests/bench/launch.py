"""Start and end of workers that do nothing, beside torchrun, mpirun and a bare loop of posix_spawn and wait."""
import subprocess

from table import Row
from tools import BIN, TRUE, ddprun, milliseconds, mpirun, torchrun, worker_for_mpirun

ROUNDS = 4  # all sides take turns: a busy moment of the machine hits each
RUNS = {1: (12, 3), 2: (12, 3), 8: (10, 3), 64: (6, 1), 256: (2, 1)}  # in a round: ours and the loop, mpirun
TORCHRUN_RUNS = {1: 3, 2: 4, 8: 3, 64: 1, 256: 1}  # in all: it takes seconds


def at_least(times):
    return f">= {times}x", lambda mine, ratio: ratio >= times


def loop(workers):
    return [str(BIN / "spawn_loop"), str(workers), TRUE]


def compare_with_mpirun(workers, runs, samples):
    worker = worker_for_mpirun(workers)
    ours, peer = [], []
    for _ in range(samples(ROUNDS)):
        ours += milliseconds(ddprun(workers, *worker), samples(runs), warmup=0)
        peer += milliseconds(mpirun(workers, *worker), samples(runs), warmup=0)
    yield Row(f"start and end of {workers} x {' '.join(worker).removeprefix('/bin/')}", "ms", ours, "mpirun", peer,
              *(at_least(4) if workers == 2 else ()))


def whole_runs(workers, samples):
    our_runs, mpirun_runs = RUNS[workers]
    ours, bare = [], []
    for _ in range(samples(ROUNDS)):
        ours += milliseconds(ddprun(workers, TRUE), samples(our_runs))
        bare += milliseconds(loop(workers), samples(our_runs))
    peer = milliseconds(torchrun(workers, TRUE), samples(TORCHRUN_RUNS[workers]), warmup=0)
    what = f"start and end of {workers} x true"
    yield Row(what, "ms", ours, "posix_spawn loop", bare)
    yield Row(what, "ms", ours, "torchrun", peer, *(at_least(250) if workers == 2 else ()))
    yield from compare_with_mpirun(workers, mpirun_runs, samples)


def starts(samples):
    """Starting alone, inside one process: {workers: three lists of ms: ours, bare, bare with setsid}."""
    done = subprocess.run([str(BIN / "spawn_bench"), str(samples(12))], check=True, stdout=subprocess.PIPE, text=True)
    out = {}
    for line in done.stdout.splitlines():
        workers, *sides = line.split()
        for samples_of_side, us in zip(out.setdefault(int(workers), ([], [], [])), sides):
            samples_of_side.append(float(us) / 1000)
    return out


def bench(samples):
    for workers, (ours, bare, with_setsid) in starts(samples).items():
        what = f"until the last of {workers} is started"
        goal = ("<= 1.5 x the loop", lambda mine, ratio: ratio >= 1 / 1.5) if workers == 64 else ()
        yield Row(what, "ms", ours, "posix_spawn loop", bare, *goal)
        yield Row(what, "ms", ours, "the same, with setsid", with_setsid)
    for workers in RUNS:
        yield from whole_runs(workers, samples)
