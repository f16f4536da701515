"""Start and end of workers that do nothing, beside torchrun, mpirun and a bare loop of posix_spawn and wait; and the launcher's
peak memory meanwhile, of the largest process of its tree."""
import subprocess

from table import Row, at_most, times
from tools import BIN, TRUE, ddprun, in_turns, milliseconds, mpirun, peak_mib, torchrun, worker_for_mpirun

ROUNDS = 4  # all sides take turns: a busy moment of the machine hits each
RUNS = {1: (12, 3), 2: (12, 3), 8: (10, 3), 64: (6, 1), 256: (2, 1)}  # in a round: ours and the loop, mpirun
TORCHRUN_RUNS = {1: 3, 2: 4, 8: 3, 64: 1, 256: 1}  # in all: it takes seconds


def loop(workers):
    return [str(BIN / "spawn_loop"), str(workers), TRUE]


def rounds(samples, runs, warmup, *commands):
    """Each command's milliseconds."""
    seen = in_turns(samples(ROUNDS), *(lambda command=command: milliseconds(command, samples(runs), warmup) for command in commands))
    return [sum(side, []) for side in seen]


def whole_runs(workers, samples):
    our_runs, mpirun_runs = RUNS[workers]
    ours, bare = rounds(samples, our_runs, 1, ddprun(workers, TRUE), loop(workers))
    peer = milliseconds(torchrun(workers, TRUE), samples(TORCHRUN_RUNS[workers]), warmup=0)
    what = f"start and end of {workers} x true"
    yield Row(what, "ms", ours, "posix_spawn loop", bare)
    yield Row(what, "ms", ours, "torchrun", peer, *[times(250)] * (workers == 2))
    worker = worker_for_mpirun(workers)
    ours, peer = rounds(samples, mpirun_runs, 0, ddprun(workers, *worker), mpirun(workers, *worker))
    yield Row(f"start and end of {workers} x {' '.join(worker).removeprefix('/bin/')}", "ms", ours, "mpirun", peer,
              *[times(4)] * (workers == 2))


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
        goal = [("<= 1.5 x the loop", lambda _, ratio: ratio >= 1 / 1.5)] if workers == 64 else []
        yield Row(what, "ms", ours, "posix_spawn loop", bare, *goal)
        yield Row(what, "ms", ours, "the same, with setsid", with_setsid)
    for workers in RUNS:
        yield from whole_runs(workers, samples)


def bench_memory(samples):
    for workers in (1, 8, 64):
        worker = worker_for_mpirun(workers)
        ours = peak_mib(ddprun(workers, *worker), samples(5))
        what = f"peak memory with {workers} worker{'s' if workers > 1 else ''}"
        yield Row(what, "MiB", ours, "mpirun", peak_mib(mpirun(workers, *worker), samples(2)), at_most(10, "MiB"))
        if workers == 8:
            yield Row(what, "MiB", ours, "torchrun", peak_mib(torchrun(workers, TRUE), samples(2)))
