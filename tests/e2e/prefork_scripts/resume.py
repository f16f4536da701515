"""An elastic main after examples/imagenet: a failure in the first start, and a checkpoint that the second one resumes."""
import argparse
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record
from torch.nn.parallel import DistributedDataParallel


def fail_once(rank, epoch):
    if os.environ["TORCHELASTIC_RESTART_COUNT"] != "0" or epoch != 2:
        return
    dist.barrier()
    if rank == 1:
        raise RuntimeError("data loader lost its disk")
    signal.pause()  # until ddprun stops this rank


@record
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--checkpoint-file", required=True)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank, first = dist.get_rank(), 0
    torch.manual_seed(0)
    model = DistributedDataParallel(torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if os.path.exists(args.checkpoint_file):
        state = torch.load(args.checkpoint_file)
        model.load_state_dict(state["model"])
        first = state["epoch"] + 1
    sys.stdout.write(f"rank {rank}: start {os.environ['TORCHELASTIC_RESTART_COUNT']} of {os.environ['TORCHELASTIC_MAX_RESTARTS']} "
                     f"more, epoch {first}\n")
    for epoch in range(first, args.epochs):
        fail_once(rank, epoch)
        optimizer.zero_grad()
        loss = (model(torch.ones(2, 3) * (epoch + rank + 1)) - 1).square().mean()
        loss.backward()
        optimizer.step()
        if rank == 0:
            torch.save({"epoch": epoch, "model": model.state_dict()}, args.checkpoint_file)
            print(f"epoch {epoch}: loss {loss.item():.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
