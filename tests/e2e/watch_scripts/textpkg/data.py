import torch
from torch.utils.data import IterableDataset


class Lines(IterableDataset):
    """Endless, as a stream is."""

    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        while True:
            words = torch.randint(0, 100, (24,), generator=generator)
            yield words, (words.sum() % 4)
