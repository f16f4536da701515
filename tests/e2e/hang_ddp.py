"""A training script with DistributedDataParallel that reports by channel.watch(), or under --watch by nothing. A rank of three:

  hang_ddp.py STEPS FAULT RANK STEP

In the job's first round the rank RANK has the fault at that step, and writes "fault" first. Faults: loop, deadlock, stop,
skip (the loss over all ranks, after every tenth step), other, size, order (in its place: another collective, another size,
first that of another group), message (none to the next rank), load, loader (a process of the DataLoader stands still), disk (a
sample is in stuck/file); inner-evaluate and save are none: rank 0 evaluates or saves
for 3 s, and the others wait for it. Several are separated by spaces.
"""
import io
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

from hang_faults import Faults, lock_twice, spin_forever, stop_here

STEPS, FAULT = int(sys.argv[1]), sys.argv[2]
is_due = Faults(*sys.argv[2:5]).is_due
BATCH, FEATURES, CLASSES = 4, 8, 3
SLOW_S = 3


def await_sample():
    while True:
        time.sleep(1)


def read_stuck_file():
    with open("stuck/file", "rb") as file:
        file.read()


class Samples(Dataset):
    """Each rank's own: sample i belongs to step i // BATCH + 1."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        if index % BATCH == 0:
            self.misbehave(index // BATCH + 1)
        return torch.full((FEATURES,), index % 7 / 7) + torch.arange(FEATURES) / 10, index % CLASSES

    def misbehave(self, step):
        if is_due("load", step) or is_due("loader", step):
            await_sample()
        if is_due("disk", step):
            read_stuck_file()


def compute(step):
    if is_due("loop", step):
        spin_forever()
    if is_due("deadlock", step):
        lock_twice()
    if is_due("stop", step):
        stop_here()


def evaluate_slowly(model):
    """On this rank alone, by the module itself."""
    model.eval()
    with torch.no_grad():
        end = time.monotonic() + SLOW_S
        while time.monotonic() < end:
            model(torch.ones(1, FEATURES))
            time.sleep(0.1)
    model.train()


class SlowFile(io.BytesIO):
    def write(self, data):
        time.sleep(SLOW_S)
        self.write = super().write
        return self.write(data)


def between_steps(model, step):
    if is_due("inner-evaluate", step):
        evaluate_slowly(model.module)
    if is_due("save", step):
        torch.save({}, SlowFile())


def gather_losses(loss, losses):
    dist.all_gather([torch.zeros(()) for _ in range(dist.get_world_size())], loss, group=losses)


def sum_another_size(losses):
    dist.all_reduce(torch.ones(5), group=losses)


def sum_accuracy():
    dist.all_reduce(torch.ones(2))


def share(loss, losses, step):
    if is_due("other", step):
        gather_losses(loss, losses)
    elif is_due("size", step):
        sum_another_size(losses)
    elif is_due("order", step):
        sum_accuracy()
        dist.all_reduce(loss, group=losses)
        return
    elif not is_due("skip", step):
        dist.all_reduce(loss, group=losses)
    if not FAULT == "skip":
        sum_accuracy()


def pass_on(step):
    """To the next rank, from the one before."""
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank > 0:
        dist.recv(torch.ones(2), rank - 1)
    if not is_due("message", step):
        dist.send(torch.ones(2), (rank + 1) % world)
    if rank == 0:
        dist.recv(torch.ones(2), world - 1)


def train(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    losses = dist.new_group(group_desc="losses")
    loader = DataLoader(Samples(), BATCH, num_workers=1 if FAULT == "loader" else 0)
    for step, (inputs, targets) in enumerate(loader, 1):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs), targets)
        compute(step)
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            share(loss.detach(), losses, step)
            if FAULT == "message":
                pass_on(step)
        between_steps(model, step)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(FEATURES, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES))
    model = DistributedDataParallel(net)
    if "DDPRUN_WATCH" not in os.environ:
        from ddprun import channel
        channel.watch(model)
    train(model)
    dist.barrier()
    print("done in round", os.environ["DDPRUN_ROUND"], flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
