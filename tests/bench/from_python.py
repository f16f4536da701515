"""A function on ranks from within a Python program: ddprun.launch() beside torch.multiprocessing.spawn and accelerate's
debug_launcher (its notebook_launcher runs in the calling process where there is no GPU).

  from_python.py peer KIND WORKERS    the milliseconds from the call to the last rank's first line, and to the return
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
PEERS = {"spawn": "torch.multiprocessing.spawn", "accelerate": "accelerate's debug_launcher (fork)"}


def first_line(folder):
    """What a rank does: says when it began."""
    import os
    import time
    with open(os.path.join(folder, str(os.getpid())), "w") as file:
        file.write(str(time.monotonic_ns()))


def for_spawn(rank, folder):
    first_line(folder)


def call(kind, workers, folder):
    if kind == "ddprun":
        import ddprun
        begin = time.monotonic_ns()
        ddprun.launch(first_line, folder, nproc_per_node=workers)
    elif kind == "spawn":
        import torch.multiprocessing
        begin = time.monotonic_ns()
        torch.multiprocessing.spawn(for_spawn, (folder,), nprocs=workers)
    else:
        from accelerate import debug_launcher
        begin = time.monotonic_ns()
        debug_launcher(first_line, (folder,), num_processes=workers)
    return begin, time.monotonic_ns()


def peer(kind, workers):
    with tempfile.TemporaryDirectory() as folder:
        begin, end = call(kind, workers, folder)
        stamps = [int(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    assert len(stamps) == workers, stamps
    print(json.dumps({"first line": (max(stamps) - begin) / 1e6, "return": (end - begin) / 1e6}))


def bench(samples):
    from table import Row
    from tools import DDPRUN, PYTHON
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "launcher/python"), "DDPRUN_LAUNCHER": DDPRUN, "OMP_NUM_THREADS": "1"}

    def once(kind, workers):
        ran = subprocess.run([PYTHON, "-B", __file__, "peer", kind, str(workers)], env=environment, check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return json.loads(ran.stdout.splitlines()[-1])

    has_accelerate = subprocess.run([PYTHON, "-c", "import accelerate"], stderr=subprocess.DEVNULL).returncode == 0
    for workers in (2, 8):
        kinds = ["ddprun", *(kind for kind in PEERS if kind != "accelerate" or has_accelerate)]
        runs = {kind: [] for kind in kinds}
        for _ in range(samples(7)):
            for kind in kinds:
                runs[kind].append(once(kind, workers))
        for what in ("first line", "return"):
            for kind in kinds[1:]:
                goal = ("less than spawn", lambda mine, ratio: ratio > 1) if kind == "spawn" else ()
                yield Row(f"call -> {what} of the last of {workers} ranks" if what == "first line" else f"call -> return, {workers} ranks", "ms", [run[what] for run in runs["ddprun"]], PEERS[kind],
                          [run[what] for run in runs[kind]], *goal)


if __name__ == "__main__":
    peer(sys.argv[2], int(sys.argv[3]))
