"""Siblings whose names others have, too: `utils`, `queue_helper`, and a `config` that is imported late."""
import os
import queue

import queue_helper
import torch.utils
import utils
from utils import accuracy

if os.environ["RANK"] == "0":
    print(utils.__name__, os.path.basename(utils.__file__), torch.utils.__name__, utils is torch.utils)
    print(accuracy(torch.tensor([1, 0, 1]), torch.tensor([1, 1, 1])))
    print(queue_helper.drain(queue.Queue()), queue.__name__, os.path.basename(queue_helper.__file__))
    from config import BATCH_SIZE
    print(BATCH_SIZE)
