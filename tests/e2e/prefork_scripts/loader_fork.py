"""DDP with AdamW, a DistributedSampler and a DataLoader with two processes by fork."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, get_worker_info


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        x = torch.tensor([index / 64])
        return x, x * x, get_worker_info().id


def seed_worker(worker_id):
    torch.manual_seed(worker_id)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    dataset = Squares()
    sampler = DistributedSampler(dataset, seed=3)
    loader = DataLoader(dataset, batch_size=8, sampler=sampler, num_workers=2, worker_init_fn=seed_worker)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        total, workers = torch.zeros(1), set()
        for x, y, worker in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss.detach()
            workers |= set(worker.tolist())
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total.item():.4f}, first index {next(iter(sampler))}, workers {sorted(workers)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
