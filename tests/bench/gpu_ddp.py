"""Trains by PyTorch's DistributedDataParallel as `train` does, for scripts/gpu-check.sh: prints rank 0's samples per second.

  ddprun --nproc-per-node=N python gpu_ddp.py MODEL [options]

The batches are drawn once and stay on the device; the first steps are not counted. --launches counts the kernels of a step instead.
"""
import argparse
import contextlib
import itertools
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "trainer"))
BATCHES = 4
VOCABULARY = 65
BLOCKS = {"resnet18": (2, 2, 2, 2), "resnet50": (3, 4, 6, 3)}


def convolution(source, target, kernel, stride=1):
    return nn.Conv2d(source, target, kernel, stride, padding=kernel // 2, bias=False)


class Block(nn.Module):
    """resnet18's two convolutions, or resnet50's three (torchvision's BasicBlock and Bottleneck)."""

    def __init__(self, source, width, target, stride, bottleneck):
        super().__init__()
        shapes = [(source, width, 1, 1), (width, width, 3, stride), (width, target, 1, 1)] if bottleneck else \
                 [(source, width, 3, stride), (width, target, 3, 1)]
        layers = []
        for shape in shapes:
            layers += [convolution(*shape), nn.BatchNorm2d(shape[1]), nn.ReLU(inplace=True)]
        self.layers = nn.Sequential(*layers[:-1])
        self.shortcut = nn.Identity()
        if stride != 1 or source != target:
            self.shortcut = nn.Sequential(convolution(source, target, 1, stride), nn.BatchNorm2d(target))

    def forward(self, images):
        return F.relu(self.layers(images) + self.shortcut(images), inplace=True)


def resnet(args):
    bottleneck = args.model == "resnet50"
    stem = 64 // args.width_divisor
    if args.size < 64:  # train's --head small
        layers = [convolution(3, stem, 3), nn.BatchNorm2d(stem), nn.ReLU(inplace=True)]
    else:
        layers = [convolution(3, stem, 7, 2), nn.BatchNorm2d(stem), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, padding=1)]
    source = stem
    for stage, count in enumerate(BLOCKS[args.model]):
        width = stem << stage
        target = 4 * width if bottleneck else width
        for block in range(count):
            layers.append(Block(source, width, target, 2 if stage and not block else 1, bottleneck))
            source = target
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(source, args.classes))


def gpt(args):
    from gpt_peer import Gpt
    return Gpt(VOCABULARY, args.context, args.layers, args.heads, args.embedding)


def batches(args, device):
    def batch():
        if args.model == "gpt":
            tokens = torch.randint(VOCABULARY, (args.batch_size, args.context + 1), device=device)
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        images = torch.rand(args.batch_size, 3, args.size, args.size, device=device)
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return images, torch.randint(args.classes, (args.batch_size,), device=device)

    return itertools.cycle([batch() for _ in range(BATCHES)])


def make_optimizer(args, parameters):
    mode = {"fused": True} if args.fused else {}  # default: foreach on GPUs
    if args.model == "gpt":
        return torch.optim.AdamW(parameters, lr=0.003, **mode)
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, **mode)


class Training:
    def __init__(self, args, device):
        torch.manual_seed(0)
        net = (gpt if args.model == "gpt" else resnet)(args).to(device)
        if args.channels_last:
            net = net.to(memory_format=torch.channels_last)
        self.device = device
        self.model = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
        self.optimizer = make_optimizer(args, net.parameters())
        self.batches = batches(args, device)
        self.precision = contextlib.nullcontext
        if args.precision == "bf16":
            self.precision = lambda: torch.autocast(device.type, torch.bfloat16)

    def steps(self, count):
        for inputs, targets in itertools.islice(self.batches, count):
            self.optimizer.zero_grad()
            with self.precision():
                scores = self.model(inputs)
                loss = F.cross_entropy(scores.flatten(0, -2), targets.flatten())
            loss.backward()
            self.optimizer.step()
        if self.device.type == "cuda":
            torch.cuda.synchronize()


def launches_per_step(training, steps):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as seen:
        training.steps(steps)
    return sum(event.count for event in seen.key_averages() if "LaunchKernel" in event.key) / steps


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=[*BLOCKS, "gpt"])
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda")
    parser.add_argument("--precision", choices=["float", "bf16"], default="float")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224, help="height and width of an image")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--width-divisor", type=int, default=1)
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--heads", type=int, default=6)
    parser.add_argument("--embedding", type=int, default=384)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--cudnn-benchmark", action="store_true")
    parser.add_argument("--launches", action="store_true")
    return parser.parse_args()


def main():
    args = parse()
    device = torch.device("cpu")
    if args.device == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
    torch.backends.cudnn.benchmark = args.cudnn_benchmark
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    training = Training(args, device)
    training.steps(max(args.steps // 4, 1))
    if args.launches:
        answer = f"{launches_per_step(training, args.steps):.0f} launches/step"
    else:
        dist.barrier()
        began = time.perf_counter()
        training.steps(args.steps)
        rate = args.steps * args.batch_size * dist.get_world_size() / (time.perf_counter() - began)
        answer = f"{rate:.0f} samples/s"
    if dist.get_rank() == 0:
        print(answer, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
