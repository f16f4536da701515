"""The trainer: a death to the next training step, with and without --prefork, and training samples per second, beside Python DDP."""
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from job import ONE_THREAD, Job
from table import Row, at_most, times
from tools import BIN, PYTHON, ROOT, TORCHRUN, ddprun, free_port, in_turns

TRAIN = str(BIN / "train")
PEER_SCRIPT = str(ROOT / "tests/trainer/python_ddp.py")
RECOVERY_LIMIT = 25  # s; who comes back needs 7
ENVIRONMENT = {**ONE_THREAD, "PYTHON_EXEC": PYTHON}
LOGGED = ["--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]  # a line for each step
QUIET = "import os, time, torch, torch.nn.parallel, torch.optim; os.write(1, b'loaded\\n'); time.sleep(600)"


def time_to_next_step(command, recovery_pattern):
    """From the SIGKILL of rank 1 to the first step of the new round, in s; None where none came within the limit."""
    with Job(command, ENVIRONMENT) as job:
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


def time_to_first_step(command, limit=300):
    with Job(command, ENVIRONMENT) as job:
        step = job.wait_for_line("^epoch 1 step 1 ", limit)
        if step is None:
            raise RuntimeError(f"{command} makes no step within {limit} s")
        return (step - job.began) / 1e9


def death_of_train(*options):
    return time_to_next_step(ddprun(2, *options, TRAIN, "1000", "1", *LOGGED), "^resuming")


def death_of_python(*launcher):
    """The Python twin does not resume: its first step once more is the sign, its second is what is timed."""
    return time_to_next_step([*launcher, PEER_SCRIPT, "1000", "1", *LOGGED], "^epoch 1 step 1 ")


def death_under_torchrun():
    """With --standalone torchrun never brings a gloo job back: its store is then the old one. A static one sometimes does."""
    return death_of_python(TORCHRUN, "--max-restarts=3", "--nproc_per_node=2", f"--master-port={free_port()}")


def who_came_back(peer):
    back = [seconds for seconds in peer if seconds is not None]
    return f"torchrun + Python ({len(back)} of {len(peer)} came back)", back


def bench_step(samples):
    ours = [death_of_train() for _ in range(samples(3) * samples(3))]
    python, peer = in_turns(samples(3), lambda: death_of_python(*ddprun(2)), death_under_torchrun)
    yield Row("death -> next step of train", "s", ours, *who_came_back(peer), at_most(0.8, "s"))
    yield Row("death -> next step, Python under both", "s", python, *who_came_back(peer))


def samples_per_second(command):
    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        done = subprocess.run([*command, f"--snapshot={folder}/snapshot.pt"], capture_output=True, text=True,
                              env={**os.environ, **ENVIRONMENT})
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stderr}")
    return float(re.search(r"^done:.* ([\d.]+) samples/s", done.stdout, re.MULTILINE).group(1))


def bench_train(samples):
    ours, peer = in_turns(samples(4), *(
        lambda program=program: samples_per_second(ddprun(2, program, "10", "1", "--device=cpu")) for program in (TRAIN, PEER_SCRIPT)))
    yield Row("training, 2 ranks, 1 thread each", "samples/s", ours, "Python DDP", peer, times(1.2))


def pss_mib(workers, *options):
    """Of all processes of a job whose workers have imported PyTorch and wait: each page counts once, shared or not."""
    def of(pid):
        try:
            lines = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
        except OSError:
            return 0
        return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))

    with tempfile.TemporaryDirectory(prefix="ddprun-bench-") as folder:
        script = pathlib.Path(folder, "quiet.py")
        script.write_text(QUIET)
        with Job(ddprun(workers, *options, str(script)), ENVIRONMENT) as job:
            for _ in range(workers):
                job.wait_for_line("^loaded", 300)
            return sum(of(pid) for pid in job.pids()) / 1024


def bench_prefork(samples):
    for program, who in (TRAIN, "train"), (PEER_SCRIPT, "Python DDP"):
        with_template, without = in_turns(samples(5), *(
            lambda words=words: time_to_first_step(ddprun(2, *words, program, "1000", "1000", *LOGGED)) for words in (["--prefork"], [])))
        yield Row(f"command -> first step of {who}, prefork", "s", with_template, "without --prefork", without)
    cold, ours = in_turns(samples(3) * samples(3), death_of_train, lambda: death_of_train("--prefork"))
    cold_python, python, peer = in_turns(samples(3), lambda: death_of_python(*ddprun(2)),
                                         lambda: death_of_python(*ddprun(2, "--prefork")), death_under_torchrun)
    yield Row("death -> next step of train, prefork", "s", ours, "without --prefork", cold, at_most(0.12, "s"))
    yield Row("death -> next step, Python, prefork", "s", python, *who_came_back(peer), at_most(0.25, "s"))
    yield Row("death -> next step, Python, prefork", "s", python, "without --prefork", cold_python)
    for workers in (2, 8, 32):
        yield Row(f"memory (PSS) of {workers} Python workers with ddprun", "MiB", [pss_mib(workers, "--prefork")], "without --prefork",
                  [pss_mib(workers)], ("<= 1x", lambda _, ratio: ratio >= 1))
