"""What goes wrong in scripts: a deprecated option, a data set that is longer than it says, errors of loading, a collective and
saving, and a model in a DistributedDataParallel that still is in eval mode, as Lightning leaves it."""
import io
import pickle
import traceback

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, IterableDataset

from weights import digest


class Longer(IterableDataset):
    def __len__(self):
        return 1

    def __iter__(self):
        return iter(torch.arange(80.0).view(40, 2))


class Broken(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        raise KeyError(f"no sample {index}")


def attempt(what):
    try:
        what()
    except Exception:
        traceback.print_exc()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(33)
    model = DDP(torch.nn.Linear(2, 1), check_reduction=True)
    model.eval()
    model.module.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for x in DataLoader(Longer(), batch_size=None):
        optimizer.zero_grad()
        loss = model(x).square().sum()
        attempt(lambda: next(iter(DataLoader(Broken()))))
        loss.backward()
        optimizer.step()
    attempt(lambda: dist.all_reduce("no tensor"))
    attempt(lambda: torch.save(lambda: 0, io.BytesIO()))
    print([pickle.loads(pickle.dumps(each)) is each for each in (torch.save, dist.all_reduce, dist.barrier)])
    print(torch.jit.script(model.module)(torch.ones(1, 2)))
    print("loss", loss.item(), "weights", digest(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
