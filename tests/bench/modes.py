"""Ways to step and memory formats, which `train` has as --fused and --channels-last: model_worker.cpp and model_peer.py on the same batches, one rank
of one thread. Each run of either program has all of them, so that a busy moment of the machine hits all."""
from models import MODELS, OURS, PEER, speeds
from table import Row

OPTIMIZERS = {"Adam": "optimizer=adam lr=0.001", "SGD": "optimizer=sgd lr=0.01"}
WAYS = {"default": "", "fused": "mode=fused", "channels last": "channels_last=1", "fused, channels last": "mode=fused channels_last=1"}
ROUNDS = 5


def ways_of(model):
    return [way for way in WAYS if not (model.startswith("gpt") and "channels" in way)]


def cases():
    """The words of both programs, and model, optimizer and way in words."""
    return {f"{model} {words} {WAYS[way]}": (what, optimizer, way)
            for model, what in MODELS.items() for optimizer, words in OPTIMIZERS.items() for way in ways_of(model)}


def measure(samples):
    """(model, optimizer, way): samples per second of each round; ours and the peer's."""
    ours, peer = ({case: [] for case in cases().values()} for _ in range(2))
    for number in range(samples(ROUNDS)):
        for seen, command in [(ours, OURS), (peer, PEER)][::-1 if number % 2 else 1]:
            for case, rate in zip(cases().values(), speeds(command, 1, cases())):
                seen[case].append(rate)
    return ours, peer


def bench(samples):
    ours, peer = measure(samples)
    for model, what in MODELS.items():
        best = ways_of(model)[-1]
        for optimizer in OPTIMIZERS:
            row = (what, optimizer, best)
            goal = (">= 1.3x", lambda mine, ratio: ratio >= 1.3) if best != "fused" else ()
            yield Row(f"{what}, {optimizer}, {best}", "samples/s", ours[row], "Python's default", peer[what, optimizer, "default"],
                      *goal, higher_is_better=True)
            for way in ways_of(model):
                goal = (">= 1x", lambda mine, ratio: ratio >= 1) if way == best else ()
                yield Row(f"{what}, {optimizer}, {way}", "samples/s", ours[what, optimizer, way], "Python, the same",
                          peer[what, optimizer, way], *goal, higher_is_better=True)
