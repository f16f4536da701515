"""Workers forked from a loaded template: a death to the next training step, and the memory of all, beside workers that are exec'd."""
import pathlib
import time

from job import Job
from table import Row
from tools import PYTHON, TORCHRUN, ddprun, free_port
from trainer import PEER_SCRIPT, TRAIN, time_to_next_step

QUIET = "import os, time, torch, torch.nn.parallel, torch.optim; os.write(1, b'loaded\\n'); time.sleep(600)"


def preforked(workers, *words):
    return ddprun(workers, "--prefork", *words)


def pss_mib(command, workers, folder):
    """Of all processes of a job whose workers have imported PyTorch and wait: each page counts once, shared or not."""
    script = pathlib.Path(folder, "quiet.py")
    script.write_text(QUIET)
    with Job([*command, str(script)], {"OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON}) as job:
        for _ in range(workers):
            job.wait_for_line("^loaded", 300)
        def of(pid):
            try:
                lines = pathlib.Path("/proc", str(pid), "smaps_rollup").read_text().splitlines()
            except OSError:
                return 0
            return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return sum(of(pid) for pid in job.pids()) / 1024


def time_to_first_step(command):
    begun = time.monotonic_ns()
    with Job(command, {"OMP_NUM_THREADS": "1", "PYTHON_EXEC": PYTHON}) as job:
        return (job.wait_for_line("^epoch 1 step 1 ") - begun) / 1e9


def first_step(samples):
    arguments = ["1000", "1000", "--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]
    for program, who in (TRAIN, "train"), (PEER_SCRIPT, "Python DDP"):
        with_template = [time_to_first_step(preforked(2, program, *arguments)) for _ in range(samples(5))]
        without = [time_to_first_step(ddprun(2, program, *arguments)) for _ in range(samples(5))]
        yield Row(f"command -> first step of {who}, prefork", "s", with_template, "without --prefork", without)


def bench(samples):
    yield from first_step(samples)
    arguments = ["1000", "1", "--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]
    cold, ours, cold_python, python, peer = [], [], [], [], []
    for _ in range(samples(3)):
        for _ in range(samples(3)):
            cold.append(time_to_next_step(ddprun(2, TRAIN, *arguments), "^resuming"))
            ours.append(time_to_next_step(preforked(2, TRAIN, *arguments), "^resuming"))
        # The Python twin does not resume: its first step once more is the sign, its second is what is timed.
        cold_python.append(time_to_next_step(ddprun(2, PEER_SCRIPT, *arguments), "^epoch 1 step 1 "))
        python.append(time_to_next_step(preforked(2, PEER_SCRIPT, *arguments), "^epoch 1 step 1 "))
        static = [TORCHRUN, "--max-restarts=3", "--nproc_per_node=2", f"--master-port={free_port()}"]
        peer.append(time_to_next_step([*static, PEER_SCRIPT, *arguments], "^epoch 1 step 1 "))
    back = [seconds for seconds in peer if seconds is not None]
    peer_name = f"torchrun + Python ({len(back)} of {len(peer)} came back)"
    yield Row("death -> next step of train, prefork", "s", ours, "without --prefork", cold, "<= 0.12 s", lambda mine, ratio: mine <= 0.12)
    yield Row("death -> next step, Python, prefork", "s", python, peer_name, back, "<= 0.25 s", lambda mine, ratio: mine <= 0.25)
    yield Row("death -> next step, Python, prefork", "s", python, "without --prefork", cold_python)
    for workers in (2, 8, 32):
        with Job(["true"]) as place:
            mine = pss_mib(preforked(workers), workers, place.folder)
            other = pss_mib(ddprun(workers), workers, place.folder)
        yield Row(f"memory (PSS) of {workers} Python workers with ddprun", "MiB", [mine], "without --prefork", [other], "<= 1x",
                  lambda mine, ratio: ratio >= 1)
