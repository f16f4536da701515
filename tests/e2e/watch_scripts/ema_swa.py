"""Averaged weights: an exponential moving average by copies, and stochastic weight averaging with update_bn."""
import copy
import pickle
import sys

import torch
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset

from weights import digest


class EMA:
    """By hand, as many scripts have it: a deep copy of the model after its first steps."""

    def __init__(self, model, decay):
        self.model, self.decay = copy.deepcopy(model).eval().requires_grad_(False), decay

    @torch.no_grad()
    def update(self, model):
        for mine, theirs in zip(self.model.state_dict().values(), model.state_dict().values()):
            if mine.dtype.is_floating_point:
                mine.mul_(self.decay).add_(theirs, alpha=1 - self.decay)


def main(epochs):
    torch.manual_seed(20)
    data = TensorDataset(torch.randn(512, 10), torch.randn(512, 2))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.BatchNorm1d(32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    averaged, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    schedule, own = SWALR(optimizer, swa_lr=0.02), None
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            ema.update_parameters(model)
            own = own or EMA(model, 0.99)
            own.update(model)
        own.model(x)
        if epoch >= epochs // 2:
            averaged.update_parameters(model)
            schedule.step()
        print(f"epoch {epoch}: loss {loss.item():.6f}")
    update_bn(loader, averaged)
    again = pickle.loads(pickle.dumps(model))
    again(x)
    print("weights", digest(model, averaged, ema, own.model, again))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 8)
