"""Image classification with meters, DataLoader workers, a validation after each epoch and the best checkpoint."""
import argparse
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Subset
from torch.utils.data.distributed import DistributedSampler
from torchvision import models, transforms
from torchvision.datasets import FakeData

from weights import digest


class AverageMeter:
    def __init__(self, name, fmt):
        self.name, self.fmt = name, fmt
        self.reset()

    def reset(self):
        self.value = self.sum = self.count = 0

    def update(self, value, n=1):
        self.value = value
        self.sum += value * n
        self.count += n

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], dtype=torch.float32)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()

    def __str__(self):
        return f"{self.name} {self.value:{self.fmt}} ({self.sum / max(self.count, 1):{self.fmt}})"


def accuracy(output, target, topk):
    with torch.no_grad():
        _, best = output.topk(max(topk), 1)
        right = best.t().eq(target)
        return [right[:k].float().sum().item() * 100 / len(target) for k in topk]


def run(loader, model, criterion, optimizer, words):
    meters = [AverageMeter("loss", ".4f"), AverageMeter("acc@1", "6.2f"), AverageMeter("acc@5", "6.2f")]
    with torch.set_grad_enabled(optimizer is not None):
        for number, (images, target) in enumerate(loader):
            output = model(images)
            loss = criterion(output, target)
            for meter, value in zip(meters, (loss.item(), *accuracy(output, target, (1, 5)))):
                meter.update(value, len(images))
            if optimizer is not None:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if number % 4 == 0 and dist.get_rank() == 0:
                    print(words, f"[{number}/{len(loader)}]", *meters)
    for meter in meters:
        meter.all_reduce()
    if dist.get_rank() == 0:
        print(words, "all:", *meters)
    return meters[1].sum / meters[1].count


def save_checkpoint(state, is_best, folder):
    torch.save(state, os.path.join(folder, "checkpoint.pth.tar"))
    if is_best:
        shutil.copyfile(os.path.join(folder, "checkpoint.pth.tar"), os.path.join(folder, "model_best.pth.tar"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-a", "--arch", default="squeezenet1_1")
    parser.add_argument("-j", "--workers", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("-b", "--batch-size", type=int, default=8)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    torch.manual_seed(4)
    model = nn.parallel.DistributedDataParallel(models.__dict__[args.arch](num_classes=10))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    flip = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.ToTensor()])
    train_set = FakeData(160, (3, 64, 64), 10, flip)
    val_set = FakeData(60, (3, 64, 64), 10, transforms.ToTensor(), random_offset=160)
    sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, num_workers=args.workers)
    val_sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)
    val_loader = DataLoader(Subset(val_set, range(60)), args.batch_size, sampler=val_sampler, num_workers=args.workers)
    best = 0
    folder = tempfile.mkdtemp() if dist.get_rank() == 0 else None
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        run(train_loader, model, criterion, optimizer, f"epoch {epoch}")
        model.eval()
        acc1 = run(val_loader, model, criterion, None, f"test {epoch}")
        scheduler.step()
        is_best, best = acc1 > best, max(acc1, best)
        if dist.get_rank() == 0:
            save_checkpoint({"epoch": epoch + 1, "arch": args.arch, "state_dict": model.state_dict(), "best_acc1": best,
                             "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, is_best, folder)
    print(f"rank {dist.get_rank()}: weights {digest(model)}")
    if folder:
        shutil.rmtree(folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
