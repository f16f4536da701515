"""What `train` does, in Python: the peer of its tests and benches. Same command line, same lines, same snapshot, as the PyTorch tutorial writes it
(torchrun's environment, DistributedSampler, DataLoader, DistributedDataParallel, SGD); only what those need is taken from the command line.

  python_ddp.py [total_epochs] [save_every] [--batch-size N] [--lr X] [--momentum X] [--seed N] [--init FILE] [--snapshot FILE]
                [--log-every N] [--threads N] [--data FOLDER] [--loader dataloader|tensor]

--loader tensor takes each batch from the whole data set by one index_select, as `train` does, instead of through a DataLoader: then what differs
between the two is Python itself. --weights FILE saves the weights after --weights-after N steps, too.
"""
import argparse
import gzip
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

HERE = pathlib.Path(__file__).resolve().parent


class ConvNet(nn.Module):
    def __init__(self, height, width, classes=10):
        super().__init__()
        self.layer1 = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
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
    images, labels = dataset.tensors
    for batch in torch.tensor(list(sampler)).split(size):
        yield images.index_select(0, batch), labels.index_select(0, batch)


def count_correct(model, dataset, rank, world):
    """As the tutorial does it: every rank a part of the test set, on rank 0's batch norm statistics, none counted twice."""
    for buffer in model.module.buffers():
        dist.broadcast(buffer, 0)
    model.eval()
    images, labels = (tensor[rank::world] for tensor in dataset.tensors)
    with torch.no_grad():
        correct = (model.module(images).argmax(1) == labels).sum()
    model.train()
    dist.reduce(correct, 0)
    return correct.item()


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("total_epochs", type=int, nargs="?", default=10)
    parser.add_argument("save_every", type=int, nargs="?", default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--init")
    parser.add_argument("--init-to", help="saves the first weights, drawn from another seed")
    parser.add_argument("--snapshot", default="snapshot.pt")
    parser.add_argument("--log-every", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--data", default=HERE.parent.parent / "data" / "digits")
    parser.add_argument("--loader", choices=["dataloader", "tensor"], default="dataloader")
    parser.add_argument("--weights-after", type=int, default=0)
    parser.add_argument("--weights")
    parser.add_argument("--device", default="cpu", choices=["cpu"])
    parser.add_argument("--fresh", action="store_true", help="always so: it never resumes")
    return parser.parse_args()


def main():
    args = parse()
    if args.threads:
        torch.set_num_threads(args.threads)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    train, test = load(args.data, "train"), load(args.data, "t10k")
    torch.manual_seed(args.seed)
    net = ConvNet(*train.tensors[0].shape[2:])
    if args.init:
        net.load_state_dict(torch.load(args.init, weights_only=True))
    if args.init_to:
        torch.manual_seed(args.seed + 1)
        net = ConvNet(*train.tensors[0].shape[2:])
        if rank == 0:
            torch.save(net.state_dict(), args.init_to)
    model = DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    loss_of = nn.CrossEntropyLoss()
    sampler = DistributedSampler(train, seed=args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)
    began, steps = time.perf_counter(), 0
    for epoch in range(args.total_epochs):
        sampler.set_epoch(epoch)
        batches = loader if args.loader == "dataloader" else batches_by_tensor(train, sampler, args.batch_size)
        for step, (images, labels) in enumerate(batches, 1):
            optimizer.zero_grad()
            loss = loss_of(model(images), labels)
            loss.backward()
            optimizer.step()
            steps += 1
            if rank == 0 and args.log_every and step % args.log_every == 0:
                print(f"epoch {epoch + 1} step {step} loss {loss.item():.9g}", flush=True)
            if steps == args.weights_after and args.weights and rank == 0:
                torch.save(net.state_dict(), args.weights)
        correct = count_correct(model, test, rank, world)
        if rank == 0:
            print(f"epoch {epoch + 1} of {args.total_epochs}: accuracy {correct / len(test):.4f} ({correct} of {len(test)})", flush=True)
            if (epoch + 1) % args.save_every == 0 or epoch + 1 == args.total_epochs:
                snapshot = {"MODEL_STATE": net.state_dict(), "OPTIMIZER_STATE": optimizer.state_dict(), "EPOCHS_RUN": epoch + 1}
                torch.save(snapshot, args.snapshot + ".new")
                os.replace(args.snapshot + ".new", args.snapshot)
    if rank == 0:
        seconds, samples = time.perf_counter() - began, args.total_epochs * sampler.total_size
        print(f"done: {args.total_epochs} epochs, accuracy {correct / len(test):.4f} ({correct} of {len(test)}), {samples} samples in "
              f"{seconds:.3f} s: {samples / seconds:.0f} samples/s", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
