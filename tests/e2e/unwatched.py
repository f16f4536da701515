"""A training script as people bring it: no line of it is about ddprun.

  unwatched.py KIND...

KIND: plain (a module and two optimizers), graph (plain, by torch.compile), ddp, compiled (ddp, by torch.compile), each trained one after the other from the same seed. It
prints a hash of the weights of each, then waits for the file "go" before it ends.
"""
import copy
import hashlib
import os
import pickle
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS = 40


def model_of(kind):
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    if kind in ("plain", "graph"):
        return torch.compile(net, backend="eager", fullgraph=True) if kind == "graph" else net
    parallel = DistributedDataParallel(net)
    return torch.compile(parallel, backend="eager") if kind == "compiled" else parallel


def train(kind):
    torch.manual_seed(1)
    model = model_of(kind)
    first, *others = model.parameters()
    optimizers = [torch.optim.SGD([first], 0.05), torch.optim.AdamW(others, 0.01)]
    for inputs, targets in DataLoader(TensorDataset(torch.randn(4 * STEPS, 8), torch.randn(4 * STEPS, 1)), 4):
        for optimizer in optimizers:
            optimizer.zero_grad()
        ((model(inputs) - targets) ** 2).mean().backward()
        for optimizer in optimizers:
            optimizer.step()
    model.eval()
    with torch.no_grad():
        model(torch.ones(1, 8))
    model.train()
    model(torch.ones(1, 8))
    if kind in ("plain", "ddp"):
        copy.deepcopy(model if kind == "plain" else model.module)(torch.ones(1, 8))
        assert b"ddprun" not in pickle.dumps(model)  # it can be loaded anywhere
    weights = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    sys.stdout.write(f"{kind} {os.environ['RANK']} {hashlib.sha256(weights).hexdigest()}\n")  # in one piece


torch.set_num_threads(1)
dist.init_process_group("gloo")
for its_kind in sys.argv[1:]:
    train(its_kind)
while not os.path.exists("go"):
    time.sleep(0.02)
dist.barrier()
sys.stdout.flush()
os._exit(0)
