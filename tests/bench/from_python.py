"""A function on ranks from within a program: ddprun.launch() and the C++ library's launch(), beside torch.multiprocessing.spawn
and accelerate's notebook_launcher, which forks the calling process.

  from_python.py KIND WORKERS FOLDER [torch]    prints when the call began and returned, as launch_load does; with torch the
                                                ranks import it before their first line, as a training does
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OURS = {"python": "ddprun.launch()", "C++": "launch() of C++"}
PEERS = {"spawn": "torch.multiprocessing.spawn", "accelerate": "accelerate's notebook_launcher (fork)"}


def first_line(folder, with_torch):
    """What a rank does: says when it began."""
    import os
    import time
    if with_torch:
        import torch  # noqa: F401
    with open(os.path.join(folder, str(os.getpid())), "w") as file:
        file.write(str(time.monotonic_ns()))


def for_spawn(rank, folder, with_torch):
    first_line(folder, with_torch)


def call(kind, workers, arguments):
    """The times before and after it; loading the peer itself is not counted."""
    if kind == "python":
        import ddprun
        begin = time.monotonic_ns()
        ddprun.launch(first_line, *arguments, nproc_per_node=workers)
    elif kind == "spawn":
        import torch.multiprocessing
        begin = time.monotonic_ns()
        torch.multiprocessing.spawn(for_spawn, arguments, nprocs=workers)
    else:
        from accelerate import notebook_launcher
        begin = time.monotonic_ns()
        notebook_launcher(first_line, arguments, num_processes=workers)
    return begin, time.monotonic_ns()


def once(kind, workers, with_torch=False):
    """The milliseconds from the call to the last rank's first line, and to the return."""
    from tools import BIN, DDPRUN, PYTHON
    environment = {**os.environ, "PYTHONPATH": str(SOURCE / "launcher/python"), "DDPRUN_LAUNCHER": DDPRUN, "OMP_NUM_THREADS": "1"}
    program = [BIN / "launch_load"] if kind == "C++" else [PYTHON, "-B", __file__, kind]
    with tempfile.TemporaryDirectory() as folder:
        ran = subprocess.run([*program, str(workers), folder, *["torch"] * with_torch], env=environment, check=True, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        stamps = [int(path.read_text()) for path in pathlib.Path(folder).iterdir()]
    assert len(stamps) == workers, stamps
    times = json.loads(ran.stdout.splitlines()[-1])
    return {"first line": (max(stamps) - times["begin"]) / 1e6, "return": (times["end"] - times["begin"]) / 1e6}


def rows(what, ours, runs, key):
    from table import Row
    for kind, peer in PEERS.items():
        goal = [("less than spawn", lambda _, ratio: ratio > 1)] if kind == "spawn" else []
        yield Row(f"{OURS[ours]} -> {what}", "ms", [run[key] for run in runs[ours]], peer, [run[key] for run in runs[kind]], *goal)


def in_turns(count, kinds, *arguments):
    import tools
    return dict(zip(kinds, tools.in_turns(count, *(lambda kind=kind: once(kind, *arguments) for kind in kinds))))


def bench(samples):
    for workers in (2, 8):
        runs = in_turns(samples(5), [*OURS, *PEERS], workers)
        for ours in OURS:
            yield from rows(f"first line of the last of {workers} ranks", ours, runs, "first line")
            yield from rows(f"return, {workers} ranks", ours, runs, "return")
    runs = in_turns(samples(5), ["python", *PEERS], 2, True)
    yield from rows("first line of the last of 2 ranks, which import torch first", "python", runs, "first line")


if __name__ == "__main__":
    began, ended = call(sys.argv[1], int(sys.argv[2]), (sys.argv[3], sys.argv[4:] == ["torch"]))
    print(json.dumps({"begin": began, "end": ended}))
