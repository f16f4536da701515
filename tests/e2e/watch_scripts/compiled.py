"""torch.compile() of a model without and one with DistributedDataParallel, and of a function with a collective."""
import argparse

import torch
import torch.distributed as dist
from torch._dynamo.utils import counters
from torch.nn.parallel import DistributedDataParallel as DDP

from transformer import Transformer, next_token_loss, random_tokens
from weights import digest


def train(model, steps, generator):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for step in range(steps):
        tokens = random_tokens(4, 16, generator)
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
    return loss.item()


def mean_of_ranks(x):
    dist.all_reduce(x)
    return x / dist.get_world_size()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    generator = torch.Generator().manual_seed(rank)
    torch.manual_seed(16)
    plain = torch.compile(Transformer(layers=1), backend=args.backend, fullgraph=True)
    parallel = torch.compile(DDP(Transformer(layers=1)), backend=args.backend)
    mean = torch.compile(mean_of_ranks, backend=args.backend, fullgraph=True)
    for name, model in ("plain", plain), ("parallel", parallel):
        loss = train(model, args.steps, generator)
        loss = mean(torch.tensor([loss])).item()
        model.eval()
        with torch.no_grad():
            valid = next_token_loss(model(tokens := random_tokens(4, 16, generator)), tokens).item()
        print(f"rank {rank}, {name}: mean loss {loss:.6f}, valid {valid:.6f}, weights {digest(model)}")
    graphs = counters["stats"]["unique_graphs"]
    print(f"rank {rank}: {graphs} graphs, breaks {sum(counters['graph_break'].values())}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
