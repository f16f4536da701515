"""The models of `train` beside Python's: model_worker.cpp and model_peer.py on the same batches, a thread for each rank, and `train`
and python_ddp.py from the command to the first step.

The ways to step and memory formats, which `train` has as --fused and --channels-last, are measured on one rank: each run of either
program has all of them, so that a busy moment of the machine hits all."""
import re

from job import Ranks
from table import Row, times
from tools import BIN, PYTHON, ROOT, TORCHRUN, ddprun, in_turns
from trainer import LOGGED, PEER_SCRIPT, TRAIN, time_to_first_step

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
OPTIMIZERS = {"Adam": "optimizer=adam lr=0.001", "SGD": "optimizer=sgd lr=0.01"}
WAYS = {"default": "", "fused": "mode=fused", "channels last": "channels_last=1", "fused, channels last": "mode=fused channels_last=1"}
ROUNDS = 5


def speeds(command, ranks, models):
    """Samples per second of each of `models`, the words of both programs, in their order."""
    words = " + ".join(f"speed {model}" for model in models).split()
    with Ranks(ranks, command, *words) as job:
        return [float(figure) for figure in re.findall(r"^samples_per_second ([\d.]+)$", job.output(), re.MULTILINE)]


def rounds_of(samples, ranks, cases):
    """{what each case is: its speeds}; ours and the peer's. `cases`: {words: what it is}"""
    both = in_turns(samples(ROUNDS), lambda: speeds(OURS, ranks, cases), lambda: speeds(PEER, ranks, cases))
    return [dict(zip(cases.values(), zip(*seen))) for seen in both]


def throughput(samples, ranks):
    ours, peer = rounds_of(samples, ranks, MODELS)
    for what in MODELS.values():
        yield Row(f"{what}: {ranks} rank{'s' if ranks > 1 else ''}", "samples/s", ours[what], "Python DDP", peer[what])


def first_step(samples, arguments, what):
    words = ["1000", *arguments.split(), "--batch-size=16", *LOGGED]
    ours, peer = [], []
    for _ in range(samples(3)):
        ours += [time_to_first_step(ddprun(2, TRAIN, *words)) for _ in range(samples(2))]
        peer.append(time_to_first_step([TORCHRUN, "--standalone", "--nproc_per_node=2", PEER_SCRIPT, *words]))
    yield Row(f"command -> first step done, {what}: 2 ranks", "s", ours, "torchrun + Python", peer, times(5))


def bench(samples):
    for ranks in (1, 2):
        yield from throughput(samples, ranks)
    for arguments, what in FIRST_STEPS.items():
        yield from first_step(samples, arguments, what)


def ways_of(model):
    return [way for way in WAYS if not (model.startswith("gpt") and "channels" in way)]


def bench_modes(samples):
    ours, peer = rounds_of(samples, 1, {
        f"{model} {words} {WAYS[way]}": (what, optimizer, way)
        for model, what in MODELS.items() for optimizer, words in OPTIMIZERS.items() for way in ways_of(model)})
    for model, what in MODELS.items():
        best = ways_of(model)[-1]
        for optimizer in OPTIMIZERS:
            goal = [times(1.3)] if best != "fused" else []
            yield Row(f"{what}, {optimizer}, {best}", "samples/s", ours[what, optimizer, best], "Python's default",
                      peer[what, optimizer, "default"], *goal)
            for way in ways_of(model):
                goal = [times(1)] if way == best else []
                yield Row(f"{what}, {optimizer}, {way}", "samples/s", ours[what, optimizer, way], "Python, the same",
                          peer[what, optimizer, way], *goal)
