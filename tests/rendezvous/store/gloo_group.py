"""Two stock PyTorch processes meet in our store, as torchrun's workers meet in its own: gloo_group.py HOST PORT ..."""
import datetime
import multiprocessing
import os
import sys

WORLD = 2


def worker(rank, host, ports):
    os.environ.update(MASTER_ADDR=host, RANK=str(rank), WORLD_SIZE=str(WORLD),
                      TORCHELASTIC_USE_AGENT_STORE="True", TORCH_DIST_INIT_BARRIER="1", OMP_NUM_THREADS="1")
    os.environ["MASTER_PORT"] = ports[0]
    meet()
    import torch.distributed as dist
    for port in ports[1:]:  # proxies of the same store, which has the first group's keys
        meet(store=dist.PrefixStore(port, dist.TCPStore(host, int(port), WORLD, False)), rank=rank, world_size=WORLD)
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291


def meet(**place):
    import torch
    import torch.distributed as dist
    limit = datetime.timedelta(seconds=60)
    dist.init_process_group("gloo", timeout=limit, **place)
    rank = dist.get_rank()
    for group in (None, dist.new_group(timeout=limit)):
        ones = torch.full((1000,), float(rank + 1))
        dist.all_reduce(ones, group=group)
        assert ones.eq(WORLD * (WORLD + 1) / 2).all(), ones
    everyone = [torch.zeros(1) for _ in range(WORLD)]
    dist.all_gather(everyone, torch.tensor([float(rank)]))
    assert [int(one) for one in everyone] == list(range(WORLD)), everyone
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    workers = [spawn.Process(target=worker, args=(rank, sys.argv[1], sys.argv[2:])) for rank in range(WORLD)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(100)
    codes = [process.exitcode for process in workers]
    for process in workers:
        process.kill()
    print("exit codes:", codes)
    sys.exit(codes != [0] * WORLD)
