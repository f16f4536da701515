"""Prints what PyTorch's DistributedSampler gives: testdata/sampler.txt, which sampler_test.cpp compares `train` with. To refresh it:

  .venv/bin/python tests/trainer/sampler_golden.py > tests/trainer/testdata/sampler.txt

One line per case: samples, seed, epoch, ranks, shuffle, drop_last, indices per rank, FNV-1a of all indices, rank by rank, as 8 little-endian bytes.
"""
import itertools
import random

from torch.utils.data import DistributedSampler


def fnv1a(numbers):
    digest = 0xcbf29ce484222325
    for number in numbers:
        for byte in number.to_bytes(8, "little"):
            digest = (digest ^ byte) * 0x100000001b3 % 2**64
    return digest


def line(samples, seed, epoch, ranks, shuffle, drop_last):
    parts = []
    for rank in range(ranks):
        sampler = DistributedSampler(range(samples), ranks, rank, shuffle=shuffle, seed=seed, drop_last=drop_last)
        sampler.set_epoch(epoch)
        parts.append(list(sampler))
    return f"{samples} {seed} {epoch} {ranks} {int(shuffle)} {int(drop_last)} {len(parts[0])} {fnv1a(itertools.chain(*parts)):016x}"


for samples, ranks, drop_last in itertools.product((1, 2, 3, 7, 10, 100), (1, 2, 3, 4, 7, 16), (False, True)):
    print(line(samples, 0, 0, ranks, False, drop_last))
    for seed, epoch in itertools.product((0, 1, 42, 2**32 + 5, 2**62), (0, 1, 9)):
        print(line(samples, seed, epoch, ranks, True, drop_last))
for ranks, drop_last in itertools.product((2, 3), (False, True)):  # the digits, and larger than what PyTorch does in parallel
    print(line(1500, 7, 3, ranks, True, drop_last))
    print(line(40000, 7, 3, ranks, True, drop_last))
draw = random.Random(6)
for _ in range(500):
    samples, ranks = draw.randrange(1, 1000), draw.randrange(1, 33)
    print(line(samples, draw.randrange(2**62), draw.randrange(1000), ranks, draw.random() < 0.8, draw.random() < 0.5))
