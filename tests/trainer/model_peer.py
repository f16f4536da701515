"""The models of `train` by PyTorch and torchvision: the peer of model_worker.cpp, with the same words and lines.

  model_peer.py TASK MODEL [SIZE=VALUE ...] [+ TASK MODEL ...]    see model_worker.cpp
"""
import os
import sys
import time
import types
import zlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torchvision.models import resnet, vgg

sys.path.insert(0, os.path.dirname(__file__))
from gpt_peer import Gpt
from python_ddp import ConvNet

DEFAULTS = dict(
    channels=1, height=8, width=8, classes=10, vocabulary=0, context=64, layers=2, heads=2, embedding=64, dropout=0.0,
    features=20, outputs=1, head="small", width_divisor=1,
    seed=7, batch=4, steps=10, warm_up=3, threads=1, lr=0.05, load="", save="", sync=0,
    optimizer="sgd", mode="default", channels_last=0)
MODES = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class Vgg(vgg.VGG):
    """torchvision's with other widths or the small head. First weights are drawn in its order."""

    def __init__(self, job):
        nn.Module.__init__(self)
        assert job.channels == 3
        layers = [size if size == "M" else size // job.width_divisor for size in vgg.cfgs["A"]]
        self.features = vgg.make_layers(layers, batch_norm=True)
        last, hidden = 512 // job.width_divisor, 4096 // job.width_divisor
        if job.head == "small":
            self.avgpool = nn.AdaptiveAvgPool2d(1)
            self.classifier = nn.Linear(last, job.classes)
        else:
            self.avgpool = nn.AdaptiveAvgPool2d(7)
            self.classifier = nn.Sequential(
                nn.Linear(last * 7 * 7, hidden), nn.ReLU(True), nn.Dropout(),
                nn.Linear(hidden, hidden), nn.ReLU(True), nn.Dropout(), nn.Linear(hidden, job.classes))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)


BLOCKS = {
    "resnet18": (resnet.BasicBlock, (2, 2, 2, 2)), "resnet34": (resnet.BasicBlock, (3, 4, 6, 3)),
    "resnet50": (resnet.Bottleneck, (3, 4, 6, 3)), "resnet101": (resnet.Bottleneck, (3, 4, 23, 3)),
    "resnet152": (resnet.Bottleneck, (3, 8, 36, 3))}


class ResNet(resnet.ResNet):
    """torchvision's with other widths or the small stem. First weights are drawn in its order."""

    def __init__(self, job):
        nn.Module.__init__(self)
        widths = [size // job.width_divisor for size in (64, 128, 256, 512)]
        self._norm_layer, self.inplanes, self.dilation, self.groups, self.base_width = nn.BatchNorm2d, widths[0], 1, 1, 64
        if job.head == "small":
            self.conv1 = nn.Conv2d(job.channels, widths[0], 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(job.channels, widths[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if job.head == "small" else nn.MaxPool2d(3, stride=2, padding=1)
        block, counts = BLOCKS[job.model]
        for i, (width, count) in enumerate(zip(widths, counts)):
            setattr(self, f"layer{i + 1}", self._make_layer(block, width, count, stride=1 if i == 0 else 2))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(widths[-1] * block.expansion, job.classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


def build(job):
    torchvisions_own = job.head == "imagenet" and job.width_divisor == 1 and job.channels == 3
    torch.manual_seed(job.seed)
    if job.model == "convnet":
        model = ConvNet(job.height, job.width, job.classes, job.channels)
    elif job.model == "vgg11_bn":
        model = vgg.vgg11_bn(num_classes=job.classes) if torchvisions_own else Vgg(job)
    elif job.model in BLOCKS:
        model = getattr(resnet, job.model)(num_classes=job.classes) if torchvisions_own else ResNet(job)
    elif job.model == "linear":
        model = nn.Linear(job.features, job.outputs)
    else:
        model = Gpt(job.vocabulary, job.context, job.layers, job.heads, job.embedding, job.dropout)
    if job.load:
        model.load_state_dict(torch.load(job.load, weights_only=True))
    return model.to(memory_format=torch.channels_last) if job.channels_last else model


def batch_of(job, step, rank, world):
    """This rank's part of a batch that is drawn whole."""
    torch.manual_seed(10_000 + step)
    n = job.batch * world
    if job.model == "gpt":
        tokens = torch.randint(job.vocabulary, (n, job.context + 1))
        inputs, targets = tokens[:, :-1], tokens[:, 1:]
    elif job.model == "linear":
        inputs, targets = torch.randn(n, job.features), torch.randn(n, job.outputs)
    else:
        inputs, targets = torch.randn(n, job.channels, job.height, job.width), torch.randint(job.classes, (n,))
    inputs, targets = (part[rank * job.batch:(rank + 1) * job.batch].contiguous() for part in (inputs, targets))
    return inputs.to(memory_format=torch.channels_last) if job.channels_last else inputs, targets


def make_optimizer(job, parameters):
    if job.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=job.lr, momentum=0.9, **MODES[job.mode])
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[job.optimizer]
    return kind(parameters, lr=job.lr, **MODES[job.mode])


def loss_of(job, scores, targets):
    if job.model == "linear":
        return F.mse_loss(scores, targets)
    if job.model == "gpt":
        scores, targets = scores.flatten(0, 1), targets.flatten()
    return F.cross_entropy(scores, targets)


def weights(job):
    for name, tensor in build(job).state_dict().items():
        shape = "x".join(str(size) for size in tensor.shape)
        print(f"{name} [{shape}] {zlib.crc32(tensor.numpy()):08x}")


def scores(job):
    model = build(job).eval()
    with torch.no_grad():
        for score in model(batch_of(job, 0, 0, 1)[0]).flatten().tolist():
            print(f"{score:.9g}")


def train(job):
    rank, world = dist.get_rank(), dist.get_world_size()
    job.seed += rank  # rank 0's weights win
    model = build(job)
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(job, model.parameters())
    for step in range(job.steps):
        inputs, targets = batch_of(job, step, rank, world)
        optimizer.zero_grad()
        loss = loss_of(job, ddp(inputs), targets)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step} loss {mean.item() / world:.9g}")
    if rank == 0:
        checksum = 0
        for tensor in model.state_dict().values():
            checksum = zlib.crc32(tensor.contiguous().numpy(), checksum)
        print(f"weights {checksum:08x}")
        if job.save:
            torch.save(model.state_dict(), job.save)


def speed(job):
    rank, world = dist.get_rank(), dist.get_world_size()
    model = build(job)
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(job, model.parameters())
    batches = [batch_of(job, i, rank, world) for i in range(4)]
    for step in range(job.warm_up + job.steps):
        if step == job.warm_up:
            dist.barrier()
            began = time.monotonic()
        inputs, targets = batches[step % len(batches)]
        optimizer.zero_grad()
        loss_of(job, ddp(inputs), targets).backward()
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"samples_per_second {job.steps * job.batch * world / (time.monotonic() - began):.2f}")


def run(words):
    job = types.SimpleNamespace(**DEFAULTS, model=words[1])
    for word in words[2:]:
        name, value = word.split("=", 1)
        setattr(job, name, type(DEFAULTS[name])(value))
    torch.set_num_threads(job.threads)
    if int(os.environ.get("RANK", "0")) == 0:
        print(f"{words[0]} {words[1]}")
    {"weights": weights, "scores": scores, "train": train, "speed": speed}[words[0]](job)


def main():
    os.environ.setdefault("WORLD_SIZE", "1")
    if os.environ["WORLD_SIZE"] == "1":
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo")
    words = []
    for word in sys.argv[1:] + ["+"]:
        if word != "+":
            words.append(word)
            continue
        run(words)
        words = []
    sys.stdout.flush()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
