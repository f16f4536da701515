"""A DataLoader whose process is spawned: it imports this file again, under another name."""
import os
import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Names(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return f"{index} {__name__} {os.path.basename(__file__)} {sys.argv[1:]} rank {os.environ['RANK']}"


if __name__ == "__main__":
    if os.environ["RANK"] == "0":
        for batch in DataLoader(Names(), batch_size=2, num_workers=1, multiprocessing_context="spawn"):
            print(batch)
        print(torch.arange(3), __name__)
