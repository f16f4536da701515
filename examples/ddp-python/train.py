"""DistributedDataParallel. Each epoch is saved, and every start goes on from there.

  ddprun --nproc_per_node=2 train.py [EPOCHS]
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

SNAPSHOT = "snapshot.pt"


def main(epochs):
    gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if gpu else torch.device("cpu")
    dist.init_process_group("nccl" if gpu else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)  # the same data and first weights on all ranks
    inputs = torch.randn(1024, 20)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    done = 0
    if os.path.exists(SNAPSHOT):
        snapshot = torch.load(SNAPSHOT, map_location=device, weights_only=True)
        model.load_state_dict(snapshot["model"])
        optimizer.load_state_dict(snapshot["optimizer"])
        done = snapshot["epochs"]
        if rank == 0:
            print(f"going on from {SNAPSHOT}: {done} epochs are done")
    wrapped = DistributedDataParallel(model)
    for epoch in range(done, epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(wrapped(x.to(device)), y.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            print(f"epoch {epoch + 1} of {epochs}: world size {dist.get_world_size()}, {len(loader)} steps, loss {loss.item():.4f}")
            # Under another name first: the worker may die while it writes.
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epochs": epoch + 1}, SNAPSHOT + ".new")
            os.replace(SNAPSHOT + ".new", SNAPSHOT)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
