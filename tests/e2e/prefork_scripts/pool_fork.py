"""multiprocessing.Pool by fork, after tensors were used."""
import multiprocessing
import os

import torch

OFFSET = torch.arange(4)


def square(x):
    return int((OFFSET + x).square().sum())


def name_of(_):
    return multiprocessing.current_process().name.split("-")[0]


if __name__ == "__main__":
    print_rank = os.environ["RANK"] == "0"
    with multiprocessing.get_context("fork").Pool(2) as pool:
        squares = pool.map(square, range(8))
        names = set(pool.map(name_of, range(8)))
    if print_rank:
        print(squares, names)
        print(multiprocessing.current_process().name, multiprocessing.parent_process(), multiprocessing.active_children())
