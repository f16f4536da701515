"""What `train` does, in Python: the peer of its tests and benches. Same command line, same lines, same snapshot, as the PyTorch tutorial writes it
(torchrun's environment, DistributedSampler, DataLoader, DistributedDataParallel); only what those need is taken from the command line.

  python_ddp.py [total_epochs] [save_every] [--model NAME] [--dataset NAME] [--batch-size N] [--optimizer NAME] [--lr X] [--momentum X]
                [--weight-decay X] [--seed N] [--init FILE] [--snapshot FILE] [--log-every N] [--threads N] [--data FOLDER]
                [--set SECTION.KEY=VALUE] [--loader dataloader|tensor]

--loader tensor takes each batch from the whole data set by one index_select, as `train` does, instead of through a DataLoader: then what differs
between the two is Python itself. --weights FILE saves the weights after --weights-after N steps, too. The models but ConvNet, the data but digits
and the optimizers are python_ddp_extras.py's.
"""
import argparse
import gzip
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import python_ddp_extras


class ConvNet(nn.Module):
    def __init__(self, height, width, classes=10, channels=1):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(channels, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.layer2 = nn.Sequential(nn.Conv2d(16, 32, 5, padding=2), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2))
        self.fc = nn.Linear(32 * (height // 4) * (width // 4), classes)

    def forward(self, images):
        return self.fc(self.layer2(self.layer1(images)).flatten(1))


def read_idx(path):
    with gzip.open(path) as file:
        content = file.read()
    shape = [int.from_bytes(content[4 + 4 * i:8 + 4 * i], "big") for i in range(content[3])]
    return torch.frombuffer(bytearray(content[4 + 4 * len(shape):]), dtype=torch.uint8).reshape(shape)


def load(folder, part):
    images = read_idx(f"{folder}/{part}-images-idx3-ubyte.gz").unsqueeze(1).float() / 255
    return TensorDataset(images, read_idx(f"{folder}/{part}-labels-idx1-ubyte.gz").long())


def batches_by_tensor(dataset, sampler, size):
    inputs, targets = dataset.tensors
    for batch in torch.tensor(list(sampler), device=inputs.device).split(size):
        yield inputs.index_select(0, batch), targets.index_select(0, batch)


def loss_of(scores, targets):
    """Of images one guess for each, of texts one for each of its characters."""
    return F.cross_entropy(scores.flatten(0, -2), targets.flatten())


def evaluate(model, dataset, rank, world):
    """How many guesses were right, of how many, and their mean loss, on rank 0. As the tutorial does it: every rank a part of the test set, on rank
    0's batch norm statistics, none counted twice."""
    for buffer in model.module.buffers():
        dist.broadcast(buffer, 0)
    model.eval()
    inputs, targets = (tensor[rank::world] for tensor in dataset.tensors)
    size = 100 if targets.dim() > 1 else 1000  # texts, images: as many at once as `train` takes
    sums = torch.zeros(3, dtype=torch.double)
    with torch.no_grad():
        for some, wanted in zip(inputs.split(size), targets.split(size)):
            scores = model.module(some)
            correct = (scores.argmax(-1) == wanted).sum().item()
            sums += torch.tensor([correct, wanted.numel(), loss_of(scores, wanted).item() * wanted.numel()])
    model.train()
    sums = sums.to(inputs.device)
    dist.reduce(sums, 0)
    correct, tested, loss = sums.tolist()
    return int(correct), int(tested), loss / tested


def found(dataset_name, correct, tested, loss):
    accuracy = f"accuracy {correct / tested:.4f}"
    return f"test loss {loss:#.4g}, {accuracy}" if dataset_name == "text" else f"{accuracy} ({correct} of {tested})"


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int, nargs="?", default=10)
    parser.add_argument("save_every", type=int, nargs="?", default=1)
    parser.add_argument("--model", choices=["convnet", *python_ddp_extras.MODELS], default="convnet")
    parser.add_argument("--dataset", choices=["digits", *python_ddp_extras.DATASETS])
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--optimizer", choices=python_ddp_extras.OPTIMIZERS, default="sgd")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--weight-decay", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--init")
    parser.add_argument("--init-to", help="saves the first weights, drawn from another seed")
    parser.add_argument("--snapshot", default="snapshot.pt")
    parser.add_argument("--log-every", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data", help="the folder of the data set")
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--set", action="append", default=[], metavar="SECTION.KEY=VALUE", help="of " + ", ".join(python_ddp_extras.SETTINGS))
    parser.add_argument("--loader", choices=["dataloader", "tensor"], default="dataloader")
    parser.add_argument("--weights-after", type=int, default=0)
    parser.add_argument("--weights")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"], help="cuda: over NCCL, with deterministic kernels")
    parser.add_argument("--fresh", action="store_true", help="always so: it never resumes")
    args = parser.parse_args()
    args.set = python_ddp_extras.settings(args.set)
    args.dataset = args.dataset or ("text" if args.model == "gpt" else "digits")
    args.data = args.data or python_ddp_extras.DATA_FOLDER / args.dataset
    return args


def load_data(args):
    """To train on, and to test on."""
    if args.dataset == "digits":
        return load(args.data, "train"), load(args.data, "t10k")
    return python_ddp_extras.load(args)


def make_net(args, train, seed):
    torch.manual_seed(seed)
    return ConvNet(*train.tensors[0].shape[2:]) if args.model == "convnet" else python_ddp_extras.make_net(args, train)


def join_group(args):
    """The device of this rank."""
    if args.device == "cpu":
        dist.init_process_group("gloo")
        return torch.device("cpu")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    torch.use_deterministic_algorithms(True)
    dist.init_process_group("nccl")
    return device


def main():
    args = parse()
    if args.threads:
        torch.set_num_threads(args.threads)
    device = join_group(args)
    rank, world = dist.get_rank(), dist.get_world_size()
    train, test = load_data(args)
    net = make_net(args, train, args.seed)
    if args.init:
        net.load_state_dict(torch.load(args.init, weights_only=True))
    if args.init_to:
        net = make_net(args, train, args.seed + 1)
        if rank == 0:
            torch.save(net.state_dict(), args.init_to)
    model = DistributedDataParallel(net.to(device))
    for dataset in (train, test):
        dataset.tensors = tuple(tensor.to(device) for tensor in dataset.tensors)
    optimizer = python_ddp_extras.make_optimizer(args, model.parameters())
    sampler = DistributedSampler(train, seed=args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)
    began, steps = time.perf_counter(), 0
    for epoch in range(args.total_epochs):
        sampler.set_epoch(epoch)
        batches = loader if args.loader == "dataloader" else batches_by_tensor(train, sampler, args.batch_size)
        for step, (inputs, targets) in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = loss_of(model(inputs), targets)
            loss.backward()
            optimizer.step()
            steps += 1
            if rank == 0 and args.log_every and step % args.log_every == 0:
                print(f"epoch {epoch + 1} step {step} loss {loss.item():.9g}", flush=True)
            if steps == args.weights_after and args.weights and rank == 0:
                torch.save(net.state_dict(), args.weights)
        seen = evaluate(model, test, rank, world)
        if rank == 0:
            print(f"epoch {epoch + 1} of {args.total_epochs}: {found(args.dataset, *seen)}", flush=True)
            if (epoch + 1) % args.save_every == 0 or epoch + 1 == args.total_epochs:
                snapshot = {"MODEL_STATE": net.state_dict(), "OPTIMIZER_STATE": optimizer.state_dict(), "EPOCHS_RUN": epoch + 1}
                torch.save(snapshot, args.snapshot + ".new")
                os.replace(args.snapshot + ".new", args.snapshot)
    if rank == 0:
        seconds, samples = time.perf_counter() - began, args.total_epochs * sampler.total_size
        print(f"done: {args.total_epochs} epochs, {found(args.dataset, *seen)}, {samples} samples in {seconds:.3f} s: "
              f"{samples / seconds:.0f} samples/s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # threads of LibTorch may abort the interpreter's own end: pytorch/pytorch#179291
