"""Says whether two snapshots hold the same model, bit for bit, as the stock PyTorch reads them: same_weights.py A B"""
import sys

import torch

first, second = (torch.load(path, weights_only=True, map_location="cpu") for path in sys.argv[1:3])
if first["EPOCHS_RUN"] != second["EPOCHS_RUN"]:
    sys.exit(f"EPOCHS_RUN differs: {first['EPOCHS_RUN']}, {second['EPOCHS_RUN']}")
for state in "MODEL_STATE", "OPTIMIZER_STATE":
    def tensors(tree, name):
        if torch.is_tensor(tree):
            yield name, tree
        elif isinstance(tree, dict):
            for key, value in tree.items():
                yield from tensors(value, f"{name}.{key}")
        elif isinstance(tree, (list, tuple)):
            for index, value in enumerate(tree):
                yield from tensors(value, f"{name}[{index}]")

    one, other = (dict(tensors(snapshot[state], state)) for snapshot in (first, second))
    if one.keys() != other.keys() or not one:
        sys.exit(f"{state} has other tensors: {sorted(one.keys() ^ other.keys())}")
    for name in one:
        # Compared as bytes: equal() treats -0.0 as 0.0.
        if one[name].dtype != other[name].dtype or one[name].shape != other[name].shape or not torch.equal(
                one[name].contiguous().flatten().view(torch.uint8), other[name].contiguous().flatten().view(torch.uint8)):
            sys.exit(f"{name} differs")
print("the same")
