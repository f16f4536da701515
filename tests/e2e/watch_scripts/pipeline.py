"""Pipeline parallelism: each rank has a stage, GPipe's schedule passes microbatches between them."""
import sys

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

from weights import digest


def main(steps):
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(13)
    layers = [torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Tanh()) for _ in range(world)]
    module = layers[rank]
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.mse_loss)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05)
    for step in range(steps):
        torch.manual_seed(step)
        x, target = torch.randn(16, 16), torch.zeros(16, 16)
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(x)
        else:
            losses = []
            schedule.step(target=target, losses=losses)
            if step % 10 == 0:
                print(f"step {step}: loss {torch.stack(losses).mean().item():.6f}")
        optimizer.step()
    print(f"rank {rank}: weights {digest(module)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 80)
