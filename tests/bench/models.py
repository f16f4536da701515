"""The models of `train` beside Python's: model_worker.cpp and model_peer.py on the same batches, and `train` and python_ddp.py from the command to the
first step. A thread for each rank."""
import os
import re
import subprocess

from job import Job
from table import Row
from tools import BIN, PYTHON, ROOT, TORCHRUN, ddprun, free_port, raise_priority
from trainer import PEER_SCRIPT, TRAIN

OURS = [str(BIN / "model_worker")]
PEER = [PYTHON, str(ROOT / "tests/trainer/model_peer.py")]
MODELS = {  # the words of both: what it is
    "convnet channels=1 height=28 width=28 batch=32 steps=60": "ConvNet, 28x28x1, batches of 32",
    "vgg11_bn channels=3 height=32 width=32 batch=16 steps=8": "VGG11_bn, 32x32x3, batches of 16",
    "gpt vocabulary=58 context=64 batch=32 steps=30": "GPT of 2 blocks, 64 characters, batches of 32",
}
FIRST_STEPS = {  # the arguments of both: what it is
    "--model=convnet --dataset=digits": "ConvNet on the digits",
    "--model=vgg11_bn --dataset=synthetic --set data.samples=64": "VGG11_bn on synthetic images",
    "--model=gpt --dataset=text --optimizer=adamw": "GPT on its text",
}
ROUNDS = 5
LIMIT = 300  # s


def speeds(command, ranks, models):
    """Samples per second of each of `models`, the words of both programs, in their order."""
    words = " + ".join(f"speed {model}" for model in models).split()
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
             "LOCAL_WORLD_SIZE": str(ranks), "OMP_NUM_THREADS": "1"}
    workers = [subprocess.Popen([*command, *words], text=True, start_new_session=True, preexec_fn=raise_priority,
                                env={**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE) for rank in range(ranks)]
    try:
        texts = [worker.communicate(timeout=LIMIT) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    for worker, (_, error) in zip(workers, texts):
        if worker.returncode != 0:
            raise RuntimeError(f"{command} ended with {worker.returncode}:\n{error}")
    return [float(figure) for figure in re.findall(r"^samples_per_second ([\d.]+)$", texts[0][0], re.MULTILINE)]


def throughput(samples, ranks):
    ours, peer = [], []
    for number in range(samples(ROUNDS)):
        for seen, command in [(ours, OURS), (peer, PEER)][::-1 if number % 2 else 1]:
            seen.append(speeds(command, ranks, MODELS))
    for place, what in enumerate(MODELS.values()):
        yield Row(f"{what}: {ranks} rank{'s' if ranks > 1 else ''}", "samples/s", [rates[place] for rates in ours],
                  "Python DDP", [rates[place] for rates in peer], higher_is_better=True)


def seconds_to_first_step(command):
    with Job(command, {"OMP_NUM_THREADS": "1"}) as job:
        step = job.wait_for_line("^epoch 1 step 1 ", LIMIT)
        if step is None:
            raise RuntimeError(f"{command} makes no step within {LIMIT} s")
        return (step - job.began) / 1e9


def first_step(samples, arguments, what):
    words = ["1000", *arguments.split(), "--batch-size=16", "--log-every=1", "--device=cpu", "--snapshot=FOLDER/snapshot.pt"]
    ours, peer = [], []
    for _ in range(samples(3)):
        ours += [seconds_to_first_step(ddprun(2, TRAIN, *words)) for _ in range(samples(2))]
        peer.append(seconds_to_first_step([TORCHRUN, "--standalone", "--nproc_per_node=2", PEER_SCRIPT, *words]))
    yield Row(f"command -> first step done, {what}: 2 ranks", "s", ours, "torchrun + Python", peer, ">= 5x",
              lambda mine, ratio: ratio >= 5)


def bench(samples):
    for ranks in (1, 2):
        yield from throughput(samples, ranks)
    for arguments, what in FIRST_STEPS.items():
        yield from first_step(samples, arguments, what)
