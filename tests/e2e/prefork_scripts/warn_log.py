"""Warnings under PYTHONWARNINGS, and a logger set up by the script."""
import logging
import os
import sys
import warnings

import torch

rank = os.environ["RANK"]
logging.basicConfig(level=logging.INFO, stream=sys.stdout, format=f"rank {rank}: %(levelname)s %(name)s %(module)s %(message)s")
logger = logging.getLogger(__name__)
logger.info("%d handlers, %s", len(logging.root.handlers), logging.getLogger("torch").getEffectiveLevel())
logger.debug("not shown")
logger.info("filters %s", [rule[0] + " " + rule[2].__name__ for rule in warnings.filters if rule[2] in (UserWarning, FutureWarning)])
logger.info("options %s", sys.warnoptions)
for category in (UserWarning, DeprecationWarning):
    if rank == "0":
        warnings.warn(f"{category.__name__} of rank 0", category)
try:
    warnings.warn("an error by its filter", FutureWarning)
except FutureWarning as warning:
    logger.warning("raised: %s", warning)
logging.captureWarnings(True)
logger.info("tensor %s", torch.ones(2))
