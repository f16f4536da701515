"""Each parameter has an optimizer of its own that steps within the backward pass, so gradients are freed at once."""
import sys

import torch

from transformer import Transformer, next_token_loss, random_tokens
from weights import digest


def main(steps):
    torch.manual_seed(30)
    model = Transformer()
    optimizers = {parameter: torch.optim.Adam([parameter], lr=3e-3, foreach=False) for parameter in model.parameters()}

    def step_now(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step_now)
    generator = torch.Generator().manual_seed(1)
    for step in range(steps):
        tokens = random_tokens(8, 16, generator)
        loss = next_token_loss(model(tokens), tokens)
        loss.backward()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}")
    print("weights", digest(model))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
