"""An exception under @record: the error file has it."""
import os
import signal

import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


def train():
    if os.environ["RANK"] == "1":
        raise ValueError("loss is nan")
    signal.pause()  # until ddprun stops this rank


@record
def main():
    dist.init_process_group("gloo")
    dist.barrier()
    train()


if __name__ == "__main__":
    main()
