"""Threads of LibTorch: their number comes from OMP_NUM_THREADS, and can be changed before and after work."""
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import torch

rank = os.environ["RANK"]
lines = [f"OMP_NUM_THREADS {os.environ['OMP_NUM_THREADS']}, {torch.get_num_threads()} threads"]
torch.set_num_interop_threads(1)  # an error once such a thread has worked
x = torch.arange(512 * 512, dtype=torch.float64).reshape(512, 512) % 7
product = x @ x
lines.append(f"product {product.sum().item()}, {product[3, 5].item()}, {torch.get_num_interop_threads()} between operations")
torch.set_num_threads(1)
lines.append(f"{torch.get_num_threads()} thread, equal: {torch.equal(product, x @ x)}")
torch.set_num_threads(2)
lines.append(f"{torch.get_num_threads()} threads, equal: {torch.equal(product, x @ x)}")
with ThreadPoolExecutor(2) as pool:
    lines.append(f"in a pool: {[round(v.item()) for v in pool.map(torch.sum, [x, x.T, x + 1])]}")
weights = torch.ones(64, 64, requires_grad=True)
(weights @ x[:64, :64].float()).relu().sum().backward()
lines.append(f"gradient {weights.grad.sum().item()}")
sys.stdout.write("".join(f"rank {rank}: {line}\n" for line in lines))
