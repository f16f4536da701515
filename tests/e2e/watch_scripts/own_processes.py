"""Starts its ranks itself: one process under the launcher, which spawns those that train."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest


def train(rank, world_size, path, steps):
    dist.init_process_group("gloo", f"file://{path}", rank=rank, world_size=world_size)
    torch.manual_seed(31)
    model = DDP(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 8)).square().mean()
        loss.backward()
        optimizer.step()
    dist.all_reduce(loss := loss.detach())
    if rank == 0:
        print(f"loss {loss.item() / world_size:.6f}, weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, (2, os.path.join(folder, "store"), int(sys.argv[1]) if len(sys.argv) > 1 else 200), nprocs=2)
