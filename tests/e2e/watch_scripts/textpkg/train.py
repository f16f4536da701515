"""Started by `-m textpkg.train`: a bag of words, an endless stream, sparse gradients."""
import argparse
import itertools
import logging

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader

from weights import digest

from .data import Lines

log = logging.getLogger(__name__)


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = torch.nn.EmbeddingBag(100, 16, sparse=True)
        self.out = torch.nn.Linear(16, 4)

    def forward(self, words):
        return self.out(self.bag(words))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    logging.basicConfig(level=logging.INFO, format=f"%(name)s rank {dist.get_rank()}: %(message)s")
    torch.manual_seed(25)
    model = DDP(Classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Lines(dist.get_rank()), batch_size=8)
    for step, (words, labels) in enumerate(itertools.islice(loader, args.steps)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(words), labels)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            log.info("step %d, loss %.6f", step, loss.item())
    print(f"rank {dist.get_rank()}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
