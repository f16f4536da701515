"""Inference only: each rank has a part of the inputs, and results are gathered on rank 0."""
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from transformer import Transformer
from weights import digest


@torch.inference_mode()
def main(count):
    dist.init_process_group("gloo")
    torch.manual_seed(27)
    model = Transformer().eval()
    data = TensorDataset(torch.randint(0, 64, (count, 16)))
    results = []
    for tokens, in DataLoader(data, batch_size=8, sampler=DistributedSampler(data, shuffle=False)):
        results.append(model(tokens).argmax(-1))
    results = torch.cat(results)
    gathered = [torch.empty_like(results) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
    dist.gather(results, gathered)
    if dist.get_rank() == 0:
        print(f"{len(torch.cat(gathered))} results, sum {torch.cat(gathered).sum().item()}")
    print(f"rank {dist.get_rank()}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
