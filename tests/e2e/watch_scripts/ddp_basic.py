"""DistributedDataParallel in few lines: a step, a checkpoint that rank 0 writes and all load, more steps."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest


class ToyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(10, 10)
        self.relu = nn.ReLU()
        self.net2 = nn.Linear(10, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


def steps(rank, model, optimizer, count):
    for step in range(count):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(torch.randn(20, 10)), torch.randn(20, 5))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 100 == 0:
            print(f"step {step}: loss {loss.item():.6f}")


def main(count):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = DDP(ToyModel())
    optimizer = optim.SGD(model.parameters(), lr=0.01)
    steps(rank, model, optimizer, count)

    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    path = os.path.join(folder[0], "model.checkpoint")
    if rank == 0:
        torch.save(model.state_dict(), path)
    dist.barrier()
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    steps(rank, model, optimizer, count)
    print(f"rank {rank}: weights {digest(model)}")
    dist.barrier()
    if rank == 0:
        os.remove(path)
        os.rmdir(folder[0])
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 300)
