"""torch.multiprocessing.spawn from within a worker: processes with a group of their own."""
import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def work(rank, world_size, path, results):
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=world_size)
    value = torch.tensor([rank + 1.0])
    dist.all_reduce(value)
    results.put((rank, value.item(), os.environ["RANK"], __name__))
    dist.destroy_process_group()


if __name__ == "__main__":
    if os.environ["RANK"] == "0":
        with tempfile.TemporaryDirectory() as folder:
            results = mp.get_context("spawn").SimpleQueue()
            mp.spawn(work, args=(2, f"{folder}/store", results), nprocs=2)
            for _ in range(2):
                print(*results.get())
