"""A training script with DistributedDataParallel whose ranks pause by turns, as healthy programs do, in steps of 20 ms.

  pauses.py REPORTS [SORT] SECONDS...
  pauses.py REPORTS random SEED MINUTES

REPORTS: watch (worker_channel.watch()), phases (the script reports each pause as what it is), none (as it is, also under --watch). Each rank makes a pause of each sort
(or of that one) and length, one after the other, while the others wait for it. With `random` rank, sort, length (0.5 to 60 s) and the
steps between are drawn, and now and then two ranks pause at once.
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

REPORTS = sys.argv[1]
STEPS_BETWEEN, STEPS_BETWEEN_MAX = 15, 100
SHORTEST_S, LONGEST_S = 0.5, 60
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
    unpack(seconds)


SORTS = [save_by_other_means, upload, first_evaluation, unpack, barrier, file_for_others]


def explicitly(sort):
    channel.phase(channel.EVALUATING if sort is first_evaluation else channel.SAVING)


def each_in_turn(sorts, lengths, ranks):
    """The steps before each pause, and who pauses: a sort and a length by rank."""
    for seconds in lengths:
        for sort in sorts:
            for rank in range(ranks):
                yield STEPS_BETWEEN, {rank: (sort, seconds)}


def drawn(seed, minutes, ranks):
    chance = random.Random(seed)  # the same on all ranks
    left = 60 * minutes
    while left > 0:
        who = chance.sample(range(ranks), 2 if chance.random() < 0.2 else 1)
        pauses = {rank: (chance.choice(SORTS), SHORTEST_S * (LONGEST_S / SHORTEST_S) ** chance.random()) for rank in who}
        yield chance.randint(1, STEPS_BETWEEN_MAX), pauses
        left -= max(seconds for _, seconds in pauses.values())


def planned(ranks):
    first, *more = sys.argv[2:]
    if first == "random":
        return drawn(int(more[0]), float(more[1]), ranks)
    chosen = [sort for sort in SORTS if sort.__name__ == first]
    return each_in_turn(chosen or SORTS, [float(word) for word in (more if chosen else [first, *more])], ranks)


def take(sort, seconds):
    if REPORTS == "phases":
        explicitly(sort)
    sort(seconds)
    if REPORTS == "phases":
        channel.phase(channel.TRAINING)


def await_file(mark):
    with channel.wait("file") if REPORTS == "phases" else tempfile.TemporaryFile():
        while not os.path.exists(mark):
            time.sleep(0.05)
    os.remove(mark)


def pause(pauses, number, here):
    mark = os.path.join(MARKS, f"pause-{os.environ['MASTER_PORT']}-{number}")
    if here in pauses:
        take(*pauses[here])
    sorts = [sort for sort, _ in pauses.values()]
    if len(pauses) == 1 and file_for_others in sorts:  # two that pause do not wait for a file
        if here in pauses:
            open(mark, "w", encoding="ascii").close()
        else:
            await_file(mark)
    if barrier in sorts:
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
    steps = 0
    for number, (steps_before, pauses) in enumerate(planned(ranks)):
        for _ in range(steps_before):
            optimizer.zero_grad()
            loss = model(torch.ones(1, 4)).sum()
            time.sleep(0.02)
            with channel.wait("grads") if REPORTS == "phases" else tempfile.TemporaryFile():
                loss.backward()
            optimizer.step()
            steps += 1
            if REPORTS == "phases":
                channel.step(steps)
        pause(pauses, number, rank)
    dist.barrier()
    sys.stdout.write(f"done in round {os.environ['DDPRUN_ROUND']}\n")  # at once: print() may mix with the other rank's


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
