"""A loop that saves when it is preempted, on all ranks after the same step, and goes on from there: see job.sbatch."""
import os
import sys
import time

import torch
import torch.distributed as dist
from ddprun import channel  # every worker that ddprun starts finds it

SNAPSHOT, STEPS, KINDS = "snapshot.pt", int(sys.argv[1]), [None, "snapshot", "save"]
channel.attach()
channel.handle_signals()  # SIGTERM asks for a save, and ends nobody
device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else torch.device("cpu")
dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
rank, size, done = dist.get_rank(), dist.get_world_size(), 0
model = torch.nn.Linear(20, 1).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
if os.path.exists(SNAPSHOT):
    saved = torch.load(SNAPSHOT, map_location=device, weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    done = saved["step"]
wrapped = torch.nn.parallel.DistributedDataParallel(model)
for step in range(done + 1, STEPS + 1):
    x = torch.randn(32, 20, generator=torch.Generator().manual_seed(step * size + rank)).to(device)
    loss = torch.nn.functional.mse_loss(wrapped(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)  # as a larger model would take
    channel.step(step)
    if step % 10 == 0 or step == STEPS:
        request = channel.request()
        if request == channel.LEAVE:  # another rank has failed
            break
        # Each rank gets a request after another step. Here they agree: the most that one of them was asked for.
        kind = torch.tensor(KINDS.index(request and request.kind), device=device)
        dist.all_reduce(kind, dist.ReduceOp.MAX)
        if kind or step % 50 == 0 or step == STEPS:
            if rank == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "new.pt")
                os.replace("new.pt", SNAPSHOT)
                print(f"saved after step {step} of {STEPS}: loss {loss.item():.4f}")
            channel.snapshot(step)
        if KINDS[kind] == "save":
            break
