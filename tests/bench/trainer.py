"""The trainer: a death to the next training step, and training samples per second, beside Python DDP."""
import os
import re
import signal
import subprocess
import tempfile
import time

from job import Job
from table import Row
from tools import BIN, PYTHON, ROOT, TORCHRUN, ddprun, free_port

TRAIN = str(BIN / "train")
PEER_SCRIPT = str(ROOT / "tests/trainer/python_ddp.py")
RECOVERY_LIMIT = 25  # s; who comes back needs 7


def time_to_next_step(command, recovery_pattern):
    """From the SIGKILL of rank 1 to the first step of the new round, in s; None where none came within the limit."""
    with Job(command, {"OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON}) as job:
        job.wait_for_line(r"^epoch 2 step 1 ")
        victim, = job.pids(RANK=1)
        job.wait_for_line(r"^epoch 2 step 5 ")
        killed = time.monotonic_ns()
        os.kill(victim, signal.SIGKILL)
        try:
            back = job.wait_for_line(recovery_pattern, RECOVERY_LIMIT) and job.wait_for_line(r"^epoch \d+ step ")
        except RuntimeError:  # it ended instead
            back = None
        return back and (back - killed) / 1e9


def bench_step(samples):
    arguments = ["1000", "1", "--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]
    # With --standalone torchrun never brings a gloo job back: its store is then the old one. A static one sometimes does.
    torchrun = [TORCHRUN, "--max-restarts=3", "--nproc_per_node=2"]
    ours, python, peer = [], [], []
    for _ in range(samples(3)):
        ours += [time_to_next_step(ddprun(2, TRAIN, *arguments), "^resuming") for _ in range(samples(3))]
        # The Python twin does not resume: its first step once more is the sign, its second is what is timed.
        python.append(time_to_next_step(ddprun(2, PEER_SCRIPT, *arguments), "^epoch 1 step 1 "))
        static = [*torchrun, f"--master-port={free_port()}"]
        peer.append(time_to_next_step([*static, PEER_SCRIPT, *arguments], "^epoch 1 step 1 "))
    back = [seconds for seconds in peer if seconds is not None]
    peer_name = f"torchrun + Python ({len(back)} of {len(peer)} came back)"
    yield Row("death -> next step of train", "s", ours, peer_name, back, "<= 0.8 s", lambda mine, ratio: mine <= 0.8)
    yield Row("death -> next step, Python under both", "s", python, peer_name, back)


def samples_per_second(command):
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        done = subprocess.run([*command, f"--snapshot={folder}/snapshot.pt"], capture_output=True, text=True,
                              env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return float(re.search(r"^done:.* ([\d.]+) samples/s", done.stdout, re.MULTILINE).group(1))


def bench_train(samples):
    arguments = ["10", "1", "--device=cpu"]
    ours, peer = [], []
    for _ in range(samples(4)):
        ours.append(samples_per_second(ddprun(2, TRAIN, *arguments)))
        peer.append(samples_per_second(ddprun(2, PEER_SCRIPT, *arguments)))
    yield Row("training, 2 ranks, 1 thread each", "samples/s", ours, "Python DDP", peer, ">= 1.2x",
              lambda mine, ratio: ratio >= 1.2, higher_is_better=True)
