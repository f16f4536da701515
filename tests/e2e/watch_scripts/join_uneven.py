"""Ranks with unequal numbers of batches: the Join context lets those that are done take part in the others' collectives."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest


def main(count):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(18)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    inputs = [torch.randn(4, 8) for _ in range(count + 20 * rank)]
    seen = 0
    with Join([model, optimizer]):
        for x in inputs:
            seen += 1
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
    print(f"rank {rank}: {seen} batches, loss {loss.item():.6f}, weights {digest(model)}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
