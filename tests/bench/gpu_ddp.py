"""Trains by PyTorch's DistributedDataParallel as `train` does, for scripts/gpu-check.sh: prints rank 0's samples per second.

  ddprun --nproc-per-node=N python gpu_ddp.py MODEL [options]

The batches are drawn once and stay on the device. A rate is the median of three windows, each of --window seconds or more, after
steps that are not counted; or that of --steps steps. --modes prints a line that grows with each mode. --launches counts the kernels
of a step instead.
"""
import argparse
import contextlib
import itertools
import os
import pathlib
import statistics
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
MODES = {
    "default": "as PyTorch does it by default",
    "fused": "the optimizer is one kernel",
    "graph": "fused, and the whole step is repeated as a CUDA graph",
    "compile": "fused, and torch.compile makes the kernels of the model",
}
STEPS_BEFORE_GRAPH = 11  # DistributedDataParallel needs them
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


def convnet(args):
    from python_ddp import ConvNet
    return ConvNet(args.size, args.size, args.classes)


MAKERS = {"gpt": gpt, "digits": convnet, "resnet18": resnet, "resnet50": resnet}


def batches(args, device):
    channels = 1 if args.model == "digits" else 3

    def batch():
        if args.model == "gpt":
            tokens = torch.randint(VOCABULARY, (args.batch_size, args.context + 1), device=device)
            return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        images = torch.rand(args.batch_size, channels, args.size, args.size, device=device)
        if args.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return images, torch.randint(args.classes, (args.batch_size,), device=device)

    return itertools.cycle([batch() for _ in range(BATCHES)])


def make_optimizer(args, mode, parameters):
    how = {} if mode == "default" else {"fused": True}  # default: foreach on GPUs
    if args.model == "gpt":
        return torch.optim.AdamW(parameters, lr=0.003, capturable=mode == "graph", **how)
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, **how)


class Training:
    def __init__(self, args, device, mode):
        torch.manual_seed(0)
        net = MAKERS[args.model](args).to(device)
        if args.channels_last:
            net = net.to(memory_format=torch.channels_last)
        self.device = device
        self.stream = contextlib.nullcontext()
        if mode == "graph":  # what a graph is to repeat runs on another stream than the default one
            self.stream = torch.cuda.stream(torch.cuda.Stream())
        with self.stream:
            self.model = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
        if mode == "compile":
            self.model = torch.compile(self.model)
        self.optimizer = make_optimizer(args, mode, net.parameters())
        self.batches = batches(args, device)
        self.precision = contextlib.nullcontext
        if args.precision == "bf16":
            self.precision = lambda: torch.autocast(device.type, torch.bfloat16)
        self.one_step = self.step
        if mode == "graph":
            self.record()

    def step(self, inputs, targets):
        self.optimizer.zero_grad()
        with self.precision():
            scores = self.model(inputs)
            loss = F.cross_entropy(scores.flatten(0, -2), targets.flatten())
        loss.backward()
        self.optimizer.step()

    def record(self):
        inputs, targets = (tensor.clone() for tensor in next(self.batches))
        torch.cuda.synchronize()
        with self.stream:
            for _ in range(STEPS_BEFORE_GRAPH):
                self.step(inputs, targets)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):  # NCCL's watchdog may ask about events meanwhile
            self.step(inputs, targets)

        def replay(new_inputs, new_targets):
            inputs.copy_(new_inputs)
            targets.copy_(new_targets)
            graph.replay()

        self.one_step = replay

    def steps(self, count):
        for inputs, targets in itertools.islice(self.batches, count):
            self.one_step(inputs, targets)
        self.finish()

    def finish(self):
        if self.device.type == "cuda":
            torch.cuda.synchronize()

    def time_of(self, count):
        """Seconds; all ranks begin together, and have the longest of their times."""
        dist.barrier()
        self.finish()
        began = time.perf_counter()
        self.steps(count)
        took = torch.tensor([time.perf_counter() - began], device=self.device)
        dist.all_reduce(took, dist.ReduceOp.MAX)
        return took.item()


def rate(training, args):
    """Steps per second."""
    if args.steps:
        training.steps(max(args.steps // 4, 1))
        return args.steps / training.time_of(args.steps)
    training.steps(10)
    count, spent = 10, 0
    while spent < args.window:  # warms up, and says how many steps a window takes
        took = training.time_of(count)
        spent += took
        per_step = took / count
        count = max(int(args.window / 4 / per_step), 1)
    rates = []
    while len(rates) < 3:
        count = max(int(1.05 * args.window / per_step), 1)
        took = training.time_of(count)
        per_step = took / count
        if took >= args.window:
            rates.append(1 / per_step)
    return statistics.median(rates)


def launches_per_step(training, steps):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as seen:
        training.steps(steps)
    return sum(event.count for event in seen.key_averages() if "LaunchKernel" in event.key) / steps


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MAKERS)
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
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--window", type=float, default=1, help="seconds")
    parser.add_argument("--fused", action="store_true", help="as --modes fused")
    parser.add_argument("--modes", help="several, by commas: " + "; ".join(f"{name}: {text}" for name, text in MODES.items()))
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
    if args.modes and "graph" in args.modes:
        os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"  # with a graph PyTorch asks for it
    dist.init_process_group("nccl" if args.device == "cuda" else "gloo")
    said = []
    for mode in args.modes.split(",") if args.modes else ["fused" if args.fused else "default"]:
        training = Training(args, device, mode)
        if args.launches:
            training.steps(10)
            said.append(f"{launches_per_step(training, 10):.0f}")
        else:
            said.append(f"{rate(training, args) * args.batch_size * dist.get_world_size():.0f}")
        if args.modes:
            said[-1] = f"{mode} {said[-1]}"
        if dist.get_rank() == 0:
            print(", ".join(said), "launches/step" if args.launches else "samples/s", flush=True)
        del training
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
