"""The launcher's peak memory: the largest process of its tree, while the workers do nothing."""
from table import Row
from tools import TRUE, ddprun, mpirun, peak_mib, torchrun, worker_for_mpirun

GOAL = ("<= 10 MiB", lambda mine, ratio: mine <= 10)


def bench(samples):
    for workers in (1, 8, 64):
        worker = worker_for_mpirun(workers)
        ours = peak_mib(ddprun(workers, *worker), samples(5))
        what = f"peak memory with {workers} worker{'s' if workers > 1 else ''}"
        yield Row(what, "MiB", ours, "mpirun", peak_mib(mpirun(workers, *worker), samples(2)), *GOAL)
        if workers == 8:
            yield Row(what, "MiB", ours, "torchrun", peak_mib(torchrun(workers, TRUE), samples(2)))
