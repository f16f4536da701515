"""A sibling has the name of a module that torch imports: here it is the sibling, for torch, too."""
import os

import torch
import calendar

if os.environ["RANK"] == "0":
    print(calendar.NAME, os.path.basename(os.path.dirname(calendar.__file__)), torch.ones(2).sum().item())
