"""Activations are computed again in the backward pass (torch.utils.checkpoint), with find_unused_parameters."""
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.checkpoint import checkpoint

from transformer import Transformer, next_token_loss, random_tokens
from weights import digest


class Saving(Transformer):
    """Leaves out its last layer in every third step."""
    calls = 0

    def forward(self, tokens):
        self.calls += 1
        x = self.embedding(tokens)
        for layer in self.layers if self.calls % 3 else self.layers[:-1]:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.output(self.norm(x))


def main(steps):
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(19)
    model = DDP(Saving(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(rank)
    for step in range(steps):
        tokens = random_tokens(8, 16, generator)
        loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0 and step % 10 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print(f"rank {rank}: weights {digest(model)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
