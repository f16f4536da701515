"""A generator and a discriminator, each with its optimizer, both in DistributedDataParallel."""
import sys

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest

NOISE, BATCH = 16, 8


def weights_init(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


def generator():
    return nn.Sequential(nn.ConvTranspose2d(NOISE, 32, 4, 1, 0, bias=False), nn.BatchNorm2d(32), nn.ReLU(True),
                         nn.ConvTranspose2d(32, 16, 4, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
                         nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    return nn.Sequential(nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True),
                         nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, inplace=True),
                         nn.Conv2d(32, 1, 4, 1, 0, bias=False), nn.Flatten(0))


def main(count):
    dist.init_process_group("gloo")
    torch.manual_seed(6)
    netG, netD = generator(), discriminator()
    netG.apply(weights_init)
    netD.apply(weights_init)
    netG, netD = DDP(netG, broadcast_buffers=False), DDP(netD, broadcast_buffers=False)
    torch.manual_seed(100 + dist.get_rank())
    criterion = nn.BCEWithLogitsLoss()
    optimizerD = optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
    real, fake = torch.ones(BATCH), torch.zeros(BATCH)
    for step in range(count):
        netD.zero_grad()
        lossD = criterion(netD(torch.rand(BATCH, 3, 16, 16) * 2 - 1), real)
        lossD.backward()
        images = netG(torch.randn(BATCH, NOISE, 1, 1))
        loss = criterion(netD(images.detach()), fake)
        loss.backward()
        optimizerD.step()
        netG.zero_grad()
        lossG = criterion(netD(images), real)
        lossG.backward()
        optimizerG.step()
        if step % 20 == 0 and dist.get_rank() == 0:
            print(f"[{step}/{count}] loss D {(lossD + loss).item():.4f}, loss G {lossG.item():.4f}")
    print(f"rank {dist.get_rank()}: weights {digest(netG, netD)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 120)
