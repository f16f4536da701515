"""Functional training: torch.func's gradients and vmap over an ensemble, no module's state and no optimizer."""
import sys

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, stack_module_state, vmap


def main(steps):
    torch.manual_seed(29)
    ensemble = [nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1)) for _ in range(5)]
    base = ensemble[0]
    params, buffers = stack_module_state(ensemble)

    def loss_of(params, buffers, x, y):
        return functional_call(base, (params, buffers), (x,)).sub(y).square().mean()
    step_of = vmap(grad_and_value(loss_of), in_dims=(0, 0, None, None), randomness="different")
    for step in range(steps):
        x = torch.randn(16, 4)
        grads, losses = step_of(params, buffers, x, x.sin().sum(1, keepdim=True))
        params = {name: (value - 0.05 * grads[name]).detach() for name, value in params.items()}
        if step % 50 == 0:
            print(f"step {step}: loss {losses.mean().item():.6f}")
    print("sum", sum(value.double().sum().item() for value in params.values()))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
