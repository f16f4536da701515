"""What python_ddp.py has beside ConvNet and the digits: the other models, data and optimizers of `train`, in Python. Its `args` are those of its
command line."""
import math
import pathlib
import sys
import types

import torch
from torch.utils.data import TensorDataset

DATA_FOLDER = pathlib.Path(__file__).resolve().parents[2] / "data"
MODELS = ["vgg11_bn", "resnet18", "gpt"]
DATASETS = ["text", "synthetic"]
SETTINGS = {"model.width_divisor": 1, "data.stride": 0, "data.samples": 2048}
SYNTHETIC_SHAPE, CLASSES = (3, 32, 32), 10


def settings(words):
    """Of --set."""
    values = dict(SETTINGS)
    for word in words:
        key, value = word.split("=", 1)
        if key not in values:
            sys.exit(f"python_ddp.py knows no {key}, only {', '.join(SETTINGS)}")
        values[key] = int(value)
    return values


def windows(ids, context, stride):
    """As trainer/data/text.h says; each target is its sample one character further."""
    rows = ids.unfold(0, context + 1, stride)
    return TensorDataset(rows[:, :-1].contiguous(), rows[:, 1:].contiguous())


def read_text(path, context, stride):
    text = path.read_bytes().decode()
    places = {character: place for place, character in enumerate(sorted(set(text)))}
    ids = torch.tensor([places[character] for character in text])
    cut = len(text) * 9 // 10
    parts = windows(ids[:cut], context, stride), windows(ids[cut:], context, stride)
    for part in parts:
        part.vocabulary = len(places)
    return parts


def synthetic(samples):
    """For times alone: `train` draws other pixels."""
    return TensorDataset(torch.rand(samples, *SYNTHETIC_SHAPE), torch.randint(CLASSES, (samples,)))


def load(args):
    """To train on, and to test on."""
    if args.dataset == "text":
        stride = args.set["data.stride"] or max(args.context // 4, 1)
        return read_text(pathlib.Path(args.data, "input.txt"), args.context, stride)
    samples = args.set["data.samples"]
    return synthetic(samples), synthetic(max(samples // 4, 1))


def make_net(args, train):
    if args.model == "gpt":
        from gpt_peer import Gpt
        return Gpt(train.vocabulary, args.context)
    import model_peer  # here, as torchvision takes a second that the others need not wait
    job = types.SimpleNamespace(**{**model_peer.DEFAULTS, "model": args.model, "channels": train.tensors[0].shape[1],
                                   "width_divisor": args.set["model.width_divisor"]})
    return {"vgg11_bn": model_peer.Vgg, "resnet18": model_peer.ResNet}[args.model](job)


def sgd(args, parameters):
    return torch.optim.SGD(parameters, lr=args.lr, momentum=args.momentum, weight_decay=args.weight_decay)


def adamw(args, parameters):
    return torch.optim.AdamW(parameters, lr=args.lr, weight_decay=args.weight_decay)


class LibTorchAdamW(torch.optim.Optimizer):
    """As LibTorch has it: the mean of the gradients is b * m + (1 - b) * g, where Python's AdamW takes m + (1 - b) * (g - m), which rounds otherwise."""

    BETAS, EPS = (0.9, 0.999), 1e-8

    def __init__(self, parameters, lr, weight_decay):
        super().__init__(parameters, {"lr": lr, "weight_decay": weight_decay})
        self.steps = 0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                self.update(parameter, **group)

    def update(self, parameter, lr, weight_decay, **_):
        state, gradient = self.state[parameter], parameter.grad
        if not state:
            state.update(mean=torch.zeros_like(parameter), square=torch.zeros_like(parameter))
        corrections = [1 - beta ** self.steps for beta in self.BETAS]
        parameter.mul_(1 - lr * weight_decay)
        state["mean"].mul_(self.BETAS[0]).add_(gradient, alpha=1 - self.BETAS[0])
        state["square"].mul_(self.BETAS[1]).addcmul_(gradient, gradient, value=1 - self.BETAS[1])
        denominator = (state["square"].sqrt() / math.sqrt(corrections[1])).add_(self.EPS)
        parameter.addcdiv_(state["mean"], denominator, value=-lr / corrections[0])


def libtorch_adamw(args, parameters):
    return LibTorchAdamW(parameters, args.lr, args.weight_decay)


OPTIMIZERS = {"sgd": sgd, "adamw": adamw, "libtorch-adamw": libtorch_adamw}


def make_optimizer(args, parameters):
    return OPTIMIZERS[args.optimizer](args, parameters)
