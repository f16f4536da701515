"""ZeroRedundancyOptimizer: each rank has a part of Adam's state; it is gathered on rank 0 for a checkpoint."""
import io
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest


def main(steps):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(17)
    model = DDP(torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(6)]))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(torch.randn(8, 64)), torch.randn(8, 64))
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.6f}")
        if step % 50 == 49:
            optimizer.consolidate_state_dict(to=0)
            if rank == 0:
                torch.save(optimizer.state_dict(), buffer := io.BytesIO())
                print(f"checkpoint of {len(buffer.getvalue()) // 1024} KiB")
    print(f"rank {rank}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
