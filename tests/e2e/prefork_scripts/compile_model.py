"""torch.jit.script, torch.fx and torch.compile of functions of this file: all need its source."""
import os
import warnings

import torch


def clamp_sum(x: torch.Tensor, limit: float) -> torch.Tensor:
    if bool(x.sum() > limit):
        x = x - 1
    return x.sum()


def compute(x):
    return torch.relu(x) * 2 + x.mean()


if os.environ["RANK"] == "0":
    warnings.simplefilter("ignore", FutureWarning)  # of jit.script
    x = torch.arange(6.0) - 2
    scripted = torch.jit.script(clamp_sum)
    print(scripted(x, 1.0).item(), scripted(x, 100.0).item())
    print(torch.fx.symbolic_trace(compute).code.strip())
    print(torch.compile(compute, backend="eager")(x).tolist() == compute(x).tolist())
    print(torch.vmap(torch.func.grad(lambda y: y.sin()))(torch.zeros(3)).tolist())
