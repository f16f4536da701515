"""A training script with DistributedDataParallel whose ranks pause by turns, as healthy programs do, in steps of 20 ms.

  pauses.py REPORTS SECONDS...

REPORTS: watch (worker_channel.watch()), phases (the script reports each pause as what it is), none. Each rank makes a pause of each sort
and length, one after the other, while the others wait for it.
"""
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import worker_channel as channel

REPORTS, SECONDS = sys.argv[1], [float(word) for word in sys.argv[2:]]
STEPS_BETWEEN = 15
MARKS = tempfile.gettempdir()


def until(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield


def save_by_other_means(seconds):
    with tempfile.TemporaryFile() as file:
        file.write(b"weights")
        time.sleep(seconds)


def upload(seconds):
    subprocess.run(["sleep", str(seconds)], check=True)


def first_evaluation(seconds):
    for _ in until(seconds):
        sum(i * i for i in range(1000))


def unpack(seconds):
    packed = zlib.compress(random.randbytes(1 << 16))
    with tempfile.TemporaryFile() as file:
        for _ in until(seconds):
            file.seek(0)
            file.write(zlib.decompress(packed))
            time.sleep(0.01)


def barrier(seconds):
    time.sleep(seconds)


def file_for_others(seconds):
    time.sleep(seconds)


SORTS = [save_by_other_means, upload, first_evaluation, unpack, barrier, file_for_others]


def explicitly(sort):
    channel.phase(channel.EVALUATING if sort is first_evaluation else channel.SAVING)


def pause(sort, seconds, number, here):
    mark = os.path.join(MARKS, f"pause-{os.environ['MASTER_PORT']}-{number}")
    if here:
        if REPORTS == "phases":
            explicitly(sort)
        sort(seconds)
        if REPORTS == "phases":
            channel.phase(channel.TRAINING)
        if sort is file_for_others:
            open(mark, "w", encoding="ascii").close()
    elif sort is file_for_others:
        with channel.wait("file") if REPORTS == "phases" else tempfile.TemporaryFile():
            while not os.path.exists(mark):
                time.sleep(0.05)
        os.remove(mark)
    if sort is barrier:
        dist.barrier()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model = DistributedDataParallel(nn.Linear(4, 4))
    if REPORTS == "watch":
        channel.watch(model)
    elif REPORTS == "phases":
        channel.attach()
        channel.phase(channel.TRAINING)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    pauses = [(sort, seconds, its_rank) for seconds in SECONDS for sort in SORTS for its_rank in range(ranks)]
    for number, (sort, seconds, its_rank) in enumerate(pauses):
        for step in range(STEPS_BETWEEN):
            optimizer.zero_grad()
            loss = model(torch.ones(1, 4)).sum()
            time.sleep(0.02)
            with channel.wait("grads") if REPORTS == "phases" else tempfile.TemporaryFile():
                loss.backward()
            optimizer.step()
            if REPORTS == "phases":
                channel.step(number * STEPS_BETWEEN + step + 1)
        pause(sort, seconds, number, rank == its_rank)
    dist.barrier()
    print("done in round", os.environ["DDPRUN_ROUND"], flush=True)


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
