"""A pool by spawn prepares the data and writes checkpoints, DataLoader workers stay between epochs, a rank starts programs."""
import multiprocessing
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset

from weights import digest


def prepare(seed):
    generator = torch.Generator().manual_seed(seed)
    net = torch.nn.Linear(4, 1)  # a child may train, too
    torch.nn.init.zeros_(net.weight)
    torch.optim.SGD(net.parameters(), lr=0.1).step()
    return [(torch.randn(6, generator=generator), torch.randn(1, generator=generator)) for _ in range(32)]


class Prepared(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


def main(epochs):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(26)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    with multiprocessing.get_context("spawn").Pool(1) as pool, ThreadPoolExecutor(1) as writer, tempfile.TemporaryDirectory() as folder:
        items = sum(pool.map(prepare, range(8 * rank, 8 * rank + 8)), [])
        loader = DataLoader(Prepared(items), batch_size=8, num_workers=1, persistent_workers=True)
        writes = []
        for epoch in range(epochs):
            for x, y in loader:
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
            if rank == 0:
                print(f"epoch {epoch}: loss {loss.item():.6f}")
            state = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
            writes.append(writer.submit(torch.save, state, os.path.join(folder, f"thread_{epoch}.pt")))
        pool.apply(torch.save, (state, os.path.join(folder, "pool.pt")))
        for write in writes:
            write.result()
        files = sorted(os.listdir(folder))
        same = torch.equal(torch.load(os.path.join(folder, "pool.pt"))["0.weight"], state["0.weight"])
        child = subprocess.run([sys.executable, "-c", "import torch; print(torch.optim.SGD([torch.zeros(1)], 0.1).step())"],
                               capture_output=True, text=True)
    print(f"rank {rank}: {len(files)} files, same {same}, child {child.stdout.strip()!r} {child.stderr!r}, weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 6)
