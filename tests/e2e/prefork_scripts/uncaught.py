"""An exception with a cause, uncaught in one rank."""
import os
import signal
import sys

import torch


def load(path):
    try:
        return {}[path]
    except KeyError as error:
        raise RuntimeError(f"no weights in {path}") from error


def main():
    if os.environ["RANK"] != "1":
        signal.pause()  # until ddprun stops this rank
    sys.stderr.write("rank 1: loads\n")
    if "shape" in sys.argv:
        torch.ones(2, 3) @ torch.ones(2, 3)
    load("model.pt")


main()
