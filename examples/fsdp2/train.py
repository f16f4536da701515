"""FSDP2: parameters, gradients and optimizer are sharded over the ranks. Each epoch is saved as a distributed checkpoint.

  ddprun --nproc_per_node=2 train.py [EPOCHS]
"""
import os
import pathlib
import shutil
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

FOLDER = pathlib.Path("checkpoints")
FEATURES = 32


def main(epochs):
    kind = "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if kind == "cuda" else "gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh(kind, (size,))
    torch.manual_seed(0)
    layers = [torch.nn.Linear(FEATURES, FEATURES), torch.nn.ReLU(), torch.nn.Linear(FEATURES, 1)]
    model = torch.nn.Sequential(*layers).to(kind)
    for layer in (layers[0], layers[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    # Of the last complete checkpoint: its .metadata is written after all else.
    done = max((int(file.parent.name) for file in FOLDER.glob("*/.metadata")), default=0)
    if done:
        state, optimizer_state = get_state_dict(model, optimizer)
        dcp.load({"model": state, "optimizer": optimizer_state}, checkpoint_id=FOLDER / str(done))
        set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=optimizer_state)
        if rank == 0:
            print(f"going on from {FOLDER / str(done)}, world size {size}")
    for epoch in range(done + 1, epochs + 1):
        data = torch.Generator().manual_seed(epoch * size + rank)
        for _ in range(16):
            x = torch.randn(32, FEATURES, generator=data).to(kind)
            loss = torch.nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        state, optimizer_state = get_state_dict(model, optimizer)
        dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=FOLDER / str(epoch))
        if rank == 0:
            here = sum(parameter.to_local().numel() for parameter in model.parameters())
            print(f"epoch {epoch} of {epochs}: {here} of {sum(p.numel() for p in model.parameters())} weights here, loss {loss.item():.4f}")
            shutil.rmtree(FOLDER / str(epoch - 2), ignore_errors=True)  # two stay
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
