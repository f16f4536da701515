"""Tensor parallelism: the layers' matrices are split over a DeviceMesh, columns then rows."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from weights import digest


class FeedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.in_proj = torch.nn.Linear(16, 64)
        self.relu = torch.nn.ReLU()
        self.out_proj = torch.nn.Linear(64, 8)

    def forward(self, x):
        return self.out_proj(self.relu(self.in_proj(x)))


def main(steps):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))
    torch.manual_seed(12)
    model = parallelize_module(FeedForward(), mesh["tp"], {"in_proj": ColwiseParallel(), "out_proj": RowwiseParallel()})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)
    for step in range(steps):
        torch.manual_seed(step)  # all ranks of a tensor-parallel group get the same batch
        loss = model(torch.rand(20, 16)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    print(f"rank {rank}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
