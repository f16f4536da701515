"""DeepSpeed's engine with ZeRO stage 1 on CPUs."""
import os
import sys

import deepspeed
import torch

from weights import digest


def main(steps):
    deepspeed.init_distributed("gloo", verbose=False)
    rank = int(os.environ["RANK"])
    torch.manual_seed(24)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4))
    config = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 1, "gradient_clipping": 1.0, "steps_per_print": 10 ** 6,
              "zero_optimization": {"stage": 1}, "bf16": {"enabled": True}}
    engine, optimizer, _, _ = deepspeed.initialize(model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-3), config=config)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        loss = engine(torch.randn(8, 16).bfloat16()).float().square().mean()
        engine.backward(loss)
        engine.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step}: loss {loss.item():.6f}")
    print(f"rank {rank}: weights {digest(engine.module)}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
