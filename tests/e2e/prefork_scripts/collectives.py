"""Collectives, a group of its own, a store by hand; the script ends without destroying the group."""
import os
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([rank + 1.0])
dist.all_reduce(total)
objects = [None] * world
dist.all_gather_object(objects, {"rank": rank, "local": os.environ["LOCAL_RANK"]})
alone = dist.new_group([0])
box = ["from rank 0" if rank == 0 else None]
dist.broadcast_object_list(box)
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
store.set(f"key {rank}", str(rank))
other = store.get(f"key {1 - rank}").decode()
dist.barrier()
if rank == 0:
    print(total.item(), objects, box, other, alone.size(), dist.get_backend(), dist.is_torchelastic_launched())
