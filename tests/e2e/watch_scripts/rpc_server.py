"""A parameter server by RPC: rank 0 has the parameters, rank 1 sends gradients."""
import sys

import torch
import torch.distributed.rpc as rpc

SIZE = 8
parameters = torch.zeros(SIZE)


def apply(gradient):
    parameters.sub_(gradient, alpha=0.1)
    return parameters


def main(steps):
    import os
    rank = int(os.environ["RANK"])
    rpc.init_rpc(f"worker{rank}", rank=rank, world_size=2)
    if rank == 1:
        torch.manual_seed(32)
        current = torch.zeros(SIZE)
        for _ in range(steps):
            x = torch.randn(SIZE)
            weight = current.clone().requires_grad_()
            (weight @ x - x.sum()).square().backward()
            current = rpc.rpc_sync("worker0", apply, (weight.grad,))
        print(f"parameters {current.sum().item():.6f}")
    rpc.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
