"""DistributedDataParallel in each of its modes, by PyTorch: the peer of ddp_parity.cpp, which prints the same lines.

  ddp_parity.py [--device cuda] [mode ...]    without words: all of them
"""
import argparse
import contextlib
import os
import sys
import zlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

STEPS = 20
BATCH = 6
MAX_NORM = 0.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.first = nn.Linear(8 * 4 * 4, 32)
        self.extra = nn.Linear(32, 32)
        self.last = nn.Linear(32, 10)

    def forward(self, images, extra):
        """`extra`: how often that layer is used."""
        x = F.max_pool2d(F.relu(self.norm(self.conv(images))), 2).flatten(1)
        x = F.relu(self.first(x))
        for _ in range(extra):
            x = F.relu(self.extra(x))
        return self.last(x)


def batch(step, part, rank):
    torch.manual_seed(10_000 + 1000 * step + 100 * part + rank)
    return torch.randn(BATCH, 1, 8, 8), torch.randint(10, (BATCH,))


MODES = {
    "plain": {},
    "small-buckets": {"bucket_cap_mb": 4 / 1024},
    "bucket-views": {"gradient_as_bucket_view": True, "bucket_cap_mb": 4 / 1024},
    "accumulate": {},
    "accumulate-views": {"gradient_as_bucket_view": True},
    "unused": {"find_unused_parameters": True},
    "unused-views": {"find_unused_parameters": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 4 / 1024},
    "static": {"static_graph": True},
    "static-unused": {"static_graph": True},
    "no-buffers": {"broadcast_buffers": False},
    "fp16-hook": {},
    "bf16-hook": {},
    "bf16": {},
    "clip": {},
}


def extra_of(mode, step, rank):
    if mode.startswith("unused"):
        return int((step + rank) % 3 == 0)  # on some steps by no rank, on some by one of them
    return {"static": 2, "static-unused": 0}.get(mode, 1)


def train(mode, rank, device):
    torch.manual_seed(7 + rank)  # rank 0's weights win
    net = Net().to(device)
    model = DistributedDataParallel(net, **MODES[mode])
    if mode == "fp16-hook":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if mode == "bf16-hook":
        model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, foreach=False)
    parts = 3 if mode.startswith("accumulate") else 1
    for step in range(STEPS):
        optimizer.zero_grad()
        for part in range(parts):
            images, labels = (tensor.to(device) for tensor in batch(step, part, rank))
            with model.no_sync() if part + 1 < parts else contextlib.nullcontext():
                with torch.autocast(device.type, torch.bfloat16, enabled=mode == "bf16"):
                    scores = model(images, extra_of(mode, step, rank))
                loss = F.cross_entropy(scores.float(), labels)
                loss.backward()
        if mode == "clip":
            norm = nn.utils.clip_grad_norm_(net.parameters(), MAX_NORM)
            if rank == 0:
                print(f"{mode} step {step} norm {norm.item():.9g}")
        optimizer.step()
        if rank == 0:
            print(f"{mode} step {step} loss {loss.item():.9g}")
    if rank == 0:
        checksum = 0
        for tensor in [*net.parameters(), *net.buffers()]:
            checksum = zlib.crc32(bytes(tensor.detach().cpu().reshape(-1).view(torch.uint8).tolist()), checksum)
        print(f"{mode} weights {checksum:08x}", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("modes", nargs="*")
    args = parser.parse_args()
    torch.set_num_threads(1)
    device = torch.device(args.device)
    if args.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        torch.backends.cudnn.deterministic = True
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    for mode in args.modes or MODES:
        train(mode, dist.get_rank(), device)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
