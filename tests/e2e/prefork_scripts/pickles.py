"""Pickled objects of __main__, a dataclass with annotations as text, torch.save, and the source of a function."""
from __future__ import annotations

import copy
import inspect
import io
import os
import pickle
import typing
from dataclasses import asdict, dataclass, field

import torch


@dataclass
class Config:
    lr: float = 0.1
    sizes: list[int] = field(default_factory=lambda: [3, 4])


class Net(torch.nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.config = config
        self.layer = torch.nn.Linear(*config.sizes)


def scale(x):
    # doubled
    return x * 2


if os.environ["RANK"] == "0":
    config = pickle.loads(pickle.dumps(Config(0.5)))
    print(config, config == Config(0.5), type(config) is Config, asdict(config), typing.get_type_hints(Config))
    buffer = io.BytesIO()
    torch.save(Net(config), buffer)
    buffer.seek(0)
    net = torch.load(buffer, weights_only=False)
    print(type(net) is Net, type(net).__module__, net.config, net.layer.weight.shape)
    print(pickle.dumps(scale).count(b"__main__"), pickle.loads(pickle.dumps(scale)) is scale, copy.deepcopy(net).config)
    print(inspect.getsource(scale), inspect.getmodule(scale).__name__, os.path.basename(inspect.getsourcefile(Config)))
