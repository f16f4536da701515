"""Random numbers differ between ranks, also torch's, until a seed is set."""
import os
import random
import secrets
import tempfile
import uuid

import numpy
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
values = {
    "torch.initial_seed": torch.initial_seed(), "torch.rand": torch.rand(3).tolist(), "random": random.random(),
    "numpy": numpy.random.rand(), "numpy's generator": numpy.random.default_rng().random(), "uuid4": uuid.uuid4(),
    "uuid1": uuid.uuid1(), "urandom": os.urandom(8), "secrets": secrets.token_hex(), "tempfile": tempfile.mktemp(),
    "hash": hash("ddprun"),  # equal as PYTHONHASHSEED is set
}
torch.manual_seed(5)
random.seed(5)
numpy.random.seed(5)
values |= {"seeded": (torch.initial_seed(), torch.rand(2).tolist(), random.random(), numpy.random.rand())}
gathered = [None, None]
dist.all_gather_object(gathered, values)
if dist.get_rank() == 0:
    for name in values:
        print(f"{name} differs: {gathered[0][name] != gathered[1][name]}")
    print(values["hash"] % 1000, values["seeded"])
dist.destroy_process_group()
