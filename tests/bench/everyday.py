"""What people do every day, with ddprun and with torchrun: how long it takes, and how many lines they have to read.

  everyday.py [ACTION]    shows what both print

The scripts need no torch, so that the launchers are compared and not its import. Two workers, default options where none are named.
"""
import contextlib
import dataclasses
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import tools
from table import Row

RUNS = 3
HELLO = "import os\nprint('hello from rank', os.environ['RANK'])\n"
# Rank 1 begins to wait only when rank 0 does, and says so by a file.
WAITS = "import os, time\nopen('waits' + os.environ['RANK'], 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
ENDS_AFTER_RESTART = ("import os, time\nif int(os.environ['TORCHELASTIC_RESTART_COUNT']): raise SystemExit\n"
                      + WAITS.partition("\n")[2])


@dataclasses.dataclass
class Action:
    words: list  # behind the launcher's name and --nproc_per_node=2
    script: str = ""  # job.py
    when_waiting: object = None  # what is done to the launcher once both ranks wait; its time counts from there
    restarts: int = 0


def interrupt(launcher):
    os.killpg(launcher.pid, signal.SIGINT)  # as a terminal does


def terminate(launcher):
    launcher.send_signal(signal.SIGTERM)


def kill_rank(_):
    os.kill(int(pathlib.Path("waits1").read_text()), signal.SIGKILL)


ACTIONS = {
    "first script": Action(["job.py"], HELLO),
    "exception on every rank": Action(["job.py"], "def load(path):\n  raise ValueError('no such split: ' + path)\nload('trian')\n"),
    "exception on one rank": Action(["job.py"], "import os, time\nif os.environ['RANK'] == '1': {}['lr']\ntime.sleep(60)\n"),
    "segmentation fault": Action(["job.py"], "import ctypes\nctypes.string_at(0)\n"),
    "a typo in the script's name": Action(["jbo.py"], HELLO),
    "a typo in an option": Action(["--max-restrats=3", "job.py"], HELLO),
    "a module that is missing, restarts allowed": Action(["job.py"], "import nosuchmodule\n", restarts=3),
    "exit code 3 of a script": Action(["job.py"], "raise SystemExit(3)\n"),
    "kill -9 of a rank, restarts allowed": Action(["job.py"], ENDS_AFTER_RESTART, kill_rank, restarts=3),
    "Ctrl-C": Action(["job.py"], WAITS, interrupt),
    "SIGTERM, as at a preemption": Action(["job.py"], WAITS, terminate),
    "logs of each rank, kept and shown": Action(["--log-dir=logs", "--tee=3", "job.py"], HELLO),
}


def command(launcher, action):
    first = [tools.DDPRUN] if launcher == "ddprun" else [tools.TORCHRUN]
    return [*first, "--nproc_per_node=2", f"--max-restarts={action.restarts}", *action.words]


def is_waiting():
    return all(os.path.exists(f"waits{rank}") and os.path.getsize(f"waits{rank}") for rank in (0, 1))


def once(launcher, action):
    """(seconds, what was printed, exit code)"""
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder, contextlib.chdir(folder):
        pathlib.Path("job.py").write_text(action.script)
        environment = {**os.environ, "PYTHON_EXEC": tools.PYTHON, "XDG_STATE_HOME": folder, "OMP_NUM_THREADS": "1"}
        begin = time.monotonic()
        with open("output", "w") as output:
            ran = subprocess.Popen(command(launcher, action), env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                   start_new_session=True)
        if action.when_waiting:
            while not is_waiting() and ran.poll() is None:
                time.sleep(0.001)
            begin = time.monotonic()
            action.when_waiting(ran)
        code = ran.wait(timeout=120)
        return time.monotonic() - begin, pathlib.Path("output").read_text(errors="replace"), code


def bench(samples):
    for name, action in ACTIONS.items():
        ours, peer = tools.in_turns(samples(RUNS), lambda: once("ddprun", action), lambda: once("torchrun", action))
        yield Row(f"{name}: time", "s", [run[0] for run in ours], "torchrun", [run[0] for run in peer])
        lines = [[run[1].count("\n") for run in side] for side in (ours, peer)]
        yield Row(f"{name}: lines to read; exit codes {ours[0][2]} and {peer[0][2]}", "lines", lines[0], "torchrun", lines[1])


if __name__ == "__main__":
    for name, action in ACTIONS.items():
        if len(sys.argv) > 1 and name != sys.argv[1]:
            continue
        for launcher in ("ddprun", "torchrun"):
            seconds, printed, code = once(launcher, action)
            print(f"--- {name}: {launcher}: {seconds:.2f} s, {printed.count(chr(10))} lines, exit code {code}\n{printed}")
