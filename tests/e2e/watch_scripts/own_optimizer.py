"""Optimizers of the script's own: one written from scratch, and wrappers around another one (SAM and Lookahead)."""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest


class SignSGD(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.add_(parameter.grad.sign(), alpha=-group["lr"])
        return loss


class SAM(torch.optim.Optimizer):
    """Climbs, computes the gradient there, goes back, and steps with it by the optimizer within."""

    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        norm = torch.stack([p.grad.norm() for group in self.param_groups for p in group["params"]]).norm()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.clone()
                p.add_(p.grad, alpha=(group["rho"] / (norm + 1e-12)).item())

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(self.state[p]["old"])
        self.base.step()


class Lookahead:
    """Not an Optimizer by its type."""

    def __init__(self, base, every=5, alpha=0.5):
        self.base, self.every, self.alpha, self.count = base, every, alpha, 0
        self.slow = [[p.detach().clone() for p in group["params"]] for group in base.param_groups]

    def zero_grad(self):
        self.base.zero_grad()

    @torch.no_grad()
    def step(self):
        self.base.step()
        self.count += 1
        if self.count % self.every == 0:
            for group, slow in zip(self.base.param_groups, self.slow):
                for p, old in zip(group["params"], slow):
                    p.copy_(old.add_(p - old, alpha=self.alpha))


def main(steps):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(28)
    model = DDP(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ELU(), torch.nn.Linear(16, 1)))

    def backward():
        loss = model(x).sub(y).square().mean()
        loss.backward()
        return loss
    for name in "sign", "sam", "lookahead":
        optimizer = {"sign": lambda: SignSGD(model.parameters(), 1e-3), "sam": lambda: SAM(model.parameters(), torch.optim.SGD, lr=0.01),
                     "lookahead": lambda: Lookahead(torch.optim.Adam(model.parameters(), lr=1e-3))}[name]()
        for step in range(steps):
            x = torch.randn(8, 8)
            y = x.sum(1, keepdim=True)
            optimizer.zero_grad()
            loss = backward()
            if name == "sam":
                optimizer.first_step()
                optimizer.zero_grad()
                backward()
                optimizer.second_step()
            else:
                optimizer.step()
        print(f"rank {rank}, {name}: loss {loss.item():.6f}, weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
