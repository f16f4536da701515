"""What worker_channel.watch() reports of a training script, and that it changes none of its numbers. A rank of two:

  watched_ddp.py FOLDER_OF_WORKER_CHANNEL FOLDER_OF_PACKAGE_DDPRUN

Trains in each of several ways, first without watch(), then with it. Prints for each whether the losses and weights are the
same bit for bit, and the beats of its first and last step; then in which steps rank 0 is seen to wait for a late rank.
"""
import copy
import dataclasses
import io
import os
import pickle
import struct
import sys
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

sys.path[:0] = sys.argv[1:]
import worker_channel as channel
from ddprun import _pytorch

RANK = int(os.environ["RANK"])
STEPS = 4
LIMIT_S = 30


@dataclasses.dataclass
class Scores:
    first: torch.Tensor
    second: torch.Tensor


class Net(nn.Module):
    """Two heads; `kind` is the type of what it returns. With `unused` the second head is left out in odd steps."""

    def __init__(self, kind, norm=False, unused=False):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), *([nn.BatchNorm1d(16)] if norm else []), nn.ReLU())
        self.first, self.second = nn.Linear(16, 4), nn.Linear(16, 4)
        self.kind, self.unused, self.calls = kind, unused, 0

    def forward(self, inputs):
        self.calls += 1
        body = self.body(inputs)
        first = self.first(body)
        second = first if self.unused and self.calls % 2 else self.second(body)
        return {"tensor": first + second, "tuple": (first, [second]), "dict": {"a": first, "b": {"c": second}},
                "dataclass": Scores(first, second)}[self.kind]


def total(outputs):
    return sum(tensor.square().mean() for tensor in _pytorch.tensors(outputs, torch.Tensor))


WAYS = {
    "tensor": {},
    "tuple": {"kind": "tuple"},
    "dict": {"kind": "dict"},
    "dataclass": {"kind": "dataclass"},
    "batch norm": {"norm": True},
    "accumulation": {"passes": 3},
    "static graph": {"ddp": {"static_graph": True}},
    "unused parameters": {"unused": True, "ddp": {"find_unused_parameters": True}},
    "no DDP": {"ddp": None},
}


def train(watch, kind="tensor", norm=False, unused=False, passes=1, ddp={}):
    """Returns the losses and weights as they are, and the first and the last step's beats."""
    torch.manual_seed(0)
    model = Net(kind, norm, unused)
    if ddp is not None:
        model = DistributedDataParallel(model, **ddp)
    if watch:
        assert channel.watch(model) is model
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    data = torch.randn(STEPS * passes * 4, 8, generator=torch.Generator().manual_seed(RANK))
    losses, steps = [], []
    batches = iter(DataLoader(TensorDataset(data), 4))
    for _ in range(STEPS):
        SEEN.clear()
        optimizer.zero_grad()
        for i in range(passes):
            inputs, = next(batches)
            last = i + 1 == passes
            with (model.no_sync() if isinstance(model, DistributedDataParallel) and not last else io.StringIO()):
                loss = total(model(inputs))
                loss.backward()
            losses.append(loss.item())
        optimizer.step()
        steps.append(" ".join(SEEN))
    return [struct.pack("d", loss) for loss in losses] + [p.detach().numpy().tobytes() for p in model.parameters()], steps


SEEN = []  # the beats that differ from the one before, and phases


def record(report_beat, write, report_step):
    def beat(kind, name=0):
        before = report_beat(kind, name)
        text = ("none", "load", "compute", "wait")[kind]
        if before != kind:
            SEEN.append(text + (":" + name.to_bytes(8, sys.byteorder).rstrip(b"\0").decode() if name else ""))
        return before

    def other(where, first, second=0):
        if where == channel._PHASE:
            SEEN.append("phase%d" % first)
        write(where, first, second)

    def step(number, more):
        SEEN.append("step%d" % number)
        report_step(number, more)
    channel.beat, channel._write, channel._report_step = beat, other, step


def make_page():
    fd = os.memfd_create("page")
    os.ftruncate(fd, channel._BYTES)
    os.pwrite(fd, struct.pack("QII", channel._MAGIC, channel._VERSION, channel._BYTES), 0)
    os.environ[channel._VARIABLE] = str(fd)


def say(*words):
    if RANK == 0:
        print(*words, flush=True)


def is_seen_to_wait(store, key):
    """Whether this rank comes to wait for gradients; the other one is late until then."""
    for _ in range(LIMIT_S * 1000):
        kind, name = channel._words[channel._BEAT] & 0xFF, channel._words[channel._BEAT + 1]
        if kind == channel.WAIT and name == channel._name("grads"):
            break
        time.sleep(0.001)
    else:
        return
    SEEN_WAITING.add(key)
    store.set(key, "")


SEEN_WAITING = set()


def late(**ddp):
    """In which of two steps rank 0 waits for gradients while the other one is late. Those between rebuild the buckets."""
    torch.manual_seed(0)
    model = DistributedDataParallel(Net("tensor"), **ddp)
    channel.watch(model)
    store = dist.distributed_c10d._get_default_store()
    keys = [f"late {sorted(ddp)} {i}" for i in range(4)]
    for i, key in enumerate(keys):
        watching = threading.Thread(target=is_seen_to_wait, args=(store, key))
        if i in (0, 3) and RANK == 1:
            store.wait([key])
        elif i in (0, 3):
            watching.start()
        total(model(torch.randn(4, 8))).backward()
        if watching.ident:
            watching.join()
    return tuple(key in SEEN_WAITING for key in (keys[0], keys[3]))


def show(what, call):
    SEEN.clear()
    call()
    say((what + ": " + " ".join(SEEN)).rstrip())


def main():
    dist.init_process_group("gloo")
    dist_before, plain = dist.barrier, {name: train(False, **way) for name, way in WAYS.items()}
    say("without ddprun nothing is replaced:", channel.watch(nn.Linear(1, 1)) is not None and dist.barrier is dist_before)
    make_page()
    assert channel.attach()
    record(channel.beat, channel._write, channel._report_step)
    for name, way in WAYS.items():
        result, steps = train(True, **way)
        say(f"{name}: {'the same' if result == plain[name][0] else 'other'} numbers | {steps[0]} | {steps[-1]}")
    say("late rank:", late(), "static:", late(static_graph=True), "unused:", late(find_unused_parameters=True))

    model = DistributedDataParallel(Net("tensor", norm=True))
    channel.watch(model)
    inputs = torch.randn(4, 8)
    model(inputs)
    show("evaluation", lambda: (model.eval(), model(inputs), model(inputs), model.train(), model(inputs)))
    with torch.no_grad():
        show("no gradients", lambda: model(inputs))
    model(inputs)
    show("evaluation of the inner module", lambda: (model.module.eval(), model.module(inputs), model.module.train()))
    model(inputs)
    show("copied inner module", lambda: copy.deepcopy(model.module).eval()(inputs))
    loaded = pickle.loads(pickle.dumps(model.module))
    say("inner module of a file needs no channel:", b"worker_channel" not in pickle.dumps(model.module),
        torch.equal(loaded.eval()(inputs), copy.deepcopy(model.module).eval()(inputs)))
    model(inputs)
    show("save", lambda: torch.save({}, io.BytesIO()))
    show("collectives", lambda: (dist.barrier(), dist.all_reduce(torch.ones(1)), dist.all_gather_object([None, None], 1)))
    show("asynchronous", lambda: [dist.all_reduce(torch.ones(1), async_op=True).wait(),
                                  dist.all_reduce(torch.ones(1), dist.ReduceOp.SUM, None, True).wait()])
    channel._watch.in_backward = True
    show("after a backward that failed", lambda: total(model(inputs)).backward())
    copied = copy.deepcopy(channel.watch(nn.Linear(8, 1))).eval()
    show("copied model", lambda: copied(inputs))
    say("a file of a watched model needs no channel:", *[b"channel" not in (file := pickle.dumps(one)) and b"ddprun" not in file
                                                         for one in (copied, model)])
    loaded = pickle.loads(pickle.dumps(copied))
    model(inputs)
    show("loaded model", lambda: loaded(inputs))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step():
        total(model(inputs)).backward()
        optimizer.step()
        channel.step(500)
    count = channel._words[channel._STEP + 1]
    show("own steps", lambda: (step(), step()))
    say("steps counted:", channel._words[channel._STEP + 1] - count)
    before = bytes(channel._page)
    child = os.fork()
    if child == 0:
        copied(inputs)
        torch.save({}, io.BytesIO())
        os._exit(0)
    say("in a fork:", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), bytes(channel._page) == before)
    dist.destroy_process_group()


main()
