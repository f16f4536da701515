"""Gradients of four batches are accumulated with no_sync(), clipped and applied, under a cosine schedule."""
import contextlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from weights import digest

ACCUMULATE = 4


def main(epochs):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(14)
    data = TensorDataset(torch.randn(1024, 12), torch.randn(1024, 1))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(12, 32), torch.nn.GELU(), torch.nn.Linear(32, 1)), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader) // ACCUMULATE)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for number, (x, y) in enumerate(loader, 1):
            last = number % ACCUMULATE == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = torch.nn.functional.mse_loss(model(x), y) / ACCUMULATE
                loss.backward()
            if last:
                norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item() * ACCUMULATE:.6f}, norm {norm.item():.6f}, lr {scheduler.get_last_lr()[0]:.6f}")
    print(f"rank {rank}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
