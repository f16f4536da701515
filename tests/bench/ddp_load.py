"""What a job of PyTorch's DistributedDataParallel does in a bench: the peer of ddp_load.cpp, with its words and answers.

  ddp_load.py turns FOLDER NET...      WAY: plain or torch.save
  ddp_load.py loader SECONDS WORKERS...
"""
import itertools
import json
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

CLASSES = 10
WARM_UP_STEPS = 5
BATCHES_IN_MEMORY = 4
IMAGES_IN_MEMORY = 6400
NETS = {  # channels, size, kernel, batch, widths (0 halves the image)
    "small": (1, 28, 5, 32, (16, 0, 32, 0)),
    "loaded": (1, 28, 5, 32, (16, 0, 32, 0)),  # through sampler and loader, else the same few batches again and again
    "larger": (3, 32, 3, 16, (48, 0, 96, 0, 208, 208, 0, 416, 416, 0, 416, 416, 0)),
}


def net_of(channels, size, kernel, widths):
    layers = []
    for width in widths:
        if width == 0:
            layers.append(nn.MaxPool2d(2))
            size //= 2
            continue
        layers += [nn.Conv2d(channels, width, kernel, padding=kernel // 2), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * size * size, CLASSES))


def repeated_batches(batch, *shape):
    batches = [(torch.randn(batch, *shape), torch.randint(CLASSES, (batch,))) for _ in range(BATCHES_IN_MEMORY)]
    return itertools.cycle(batches)


def loaded_batches(batch, *shape):
    images = TensorDataset(torch.randn(IMAGES_IN_MEMORY, *shape), torch.randint(CLASSES, (IMAGES_IN_MEMORY,)))
    sampler = DistributedSampler(images)
    loader = DataLoader(images, batch_size=batch, sampler=sampler)
    for epoch in itertools.count():
        sampler.set_epoch(epoch)
        yield from loader


class Training:
    def __init__(self, name):
        channels, size, kernel, self.batch, widths = NETS[name]
        self.net = net_of(channels, size, kernel, widths)
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)
        self.loss_of = nn.CrossEntropyLoss()
        batches_of = loaded_batches if name == "loaded" else repeated_batches
        self.batches = batches_of(self.batch, channels, size, size)

    def steps(self, count):
        for images, labels in itertools.islice(self.batches, count):
            self.optimizer.zero_grad()
            self.loss_of(self.model(images), labels).backward()
            self.optimizer.step()


def seconds_of(work):
    dist.barrier()
    began = time.monotonic()
    work()
    dist.barrier()
    return time.monotonic() - began


def say(answer):
    if dist.get_rank() == 0:
        print(json.dumps(answer), flush=True)


def turn(training, steps, path):
    blocked = 0

    def work():
        nonlocal blocked
        began = time.monotonic()
        if path and dist.get_rank() == 0:  # as PyTorch's tutorials do it: not synced to the disk
            torch.save({"model": training.net.state_dict(), "optimizer": training.optimizer.state_dict()}, path + ".new")
            os.replace(path + ".new", path)
        blocked = time.monotonic() - began
        training.steps(steps)

    return {"seconds": seconds_of(work), "held_seconds": blocked}


def turns(words):
    folder, *names = words
    trainings = {name: Training(name) for name in names}
    for training in trainings.values():
        training.steps(WARM_UP_STEPS)
    say("ready")
    for line in sys.stdin:
        name, steps, way = line.split()
        training = trainings[name]
        took = turn(training, int(steps), f"{folder}/snapshot.pt" if way == "torch.save" else None)
        say({**took, "samples": training.batch * int(steps) * dist.get_world_size()})


class Images(Dataset):
    SIZE, PADDING = 32, 4

    def __init__(self):
        self.images = torch.randint(0, 256, (IMAGES_IN_MEMORY, 3, self.SIZE, self.SIZE), dtype=torch.uint8)
        self.labels = torch.randint(CLASSES, (IMAGES_IN_MEMORY,))
        self.mean = torch.tensor([0.49, 0.48, 0.45]).view(3, 1, 1)
        self.deviation = torch.tensor([0.25, 0.24, 0.26]).view(3, 1, 1)

    def __len__(self):
        return IMAGES_IN_MEMORY

    def __getitem__(self, index):
        image = F.pad(self.images[index], (self.PADDING,) * 4)
        top, left, flip = torch.randint(2 * self.PADDING + 1, (3,)).tolist()  # one draw, for speed: 4 of 9 are flipped
        image = image[:, top:top + self.SIZE, left:left + self.SIZE]
        if flip > self.PADDING:
            image = image.flip(2)
        return image.float().div(255).sub(self.mean).div(self.deviation), self.labels[index]


def loader(words):
    images, min_seconds = Images(), float(words[0])
    rates = []
    for workers in map(int, words[1:]):
        sampler = DistributedSampler(images, num_replicas=1, rank=0)
        batches = DataLoader(images, batch_size=128, sampler=sampler, num_workers=workers,
                             persistent_workers=workers > 0)  # to its advantage: it starts them once

        def epoch():
            sampler.set_epoch(sampler.epoch + 1)
            return sum(len(images) for images, _ in batches)

        epoch()
        began, samples = time.monotonic(), 0
        while time.monotonic() - began < min_seconds:
            samples += epoch()
        rates.append(samples / (time.monotonic() - began))
    return rates


def main():
    what, *words = sys.argv[1:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if what == "loader":
        print(json.dumps(loader(words)), flush=True)
        return
    dist.init_process_group("gloo")
    turns(words)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
