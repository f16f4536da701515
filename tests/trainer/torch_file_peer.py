"""The stock PyTorch's side of snapshot_test.cpp: reads the snapshot FOLDER/ours.pt as any user would, and writes files of its own beside it."""
import os
import sys

import torch

from python_ddp import ConvNet

folder = sys.argv[1]
ours = torch.load(f"{folder}/ours.pt", weights_only=True)
model = ConvNet(8, 8)
model.load_state_dict(ours["MODEL_STATE"])
assert list(ours["MODEL_STATE"]) == list(model.state_dict()), "names come in PyTorch's order"
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
optimizer.load_state_dict(ours["OPTIMIZER_STATE"])
assert optimizer.param_groups[0]["lr"] == 0.05 and optimizer.param_groups[0]["momentum"] == 0.9
assert all(optimizer.state[p]["momentum_buffer"].eq(i).all() for i, p in enumerate(model.parameters()))
torch.nn.functional.cross_entropy(model(torch.zeros(2, 1, 8, 8)), torch.zeros(2, dtype=torch.long)).backward()
optimizer.step()
torch.set_rng_state(ours["RNG"][1]["cpu"])
assert (ours["EPOCHS_RUN"], ours["STEP"], ours["SAMPLES_SEEN"], ours["WORLD_SIZE"], ours["ROUND"]) == (3, 2**40, 96, 2, 7)
assert ours["BUCKET_ORDER"] == [[9, 8], [7, 6, 5, 4, 3, 2, 1, 0]]

assert (ours["GENERATION"], ours["METRIC"]) == (9, 0.75)
assert ours["EXTRA"] == {"note": "grün", "losses": [1.5, 2, float("inf")], "more": {"none": None, "yes": True}}
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
schedule.load_state_dict(ours["SCHEDULER_STATE"])
assert schedule.last_epoch == 5 and schedule.get_last_lr() == [0.025]
scaler = torch.amp.GradScaler("cpu")
scaler.load_state_dict(ours["SCALER_STATE"])
assert (scaler.get_scale(), scaler.get_growth_interval(), scaler._get_growth_tracker()) == (1024, 7, 3)

for name, kind in (("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)):
    parts = torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)
    groups = [{"params": part.parameters()} for part in parts]
    optimizer = kind(groups)
    state = torch.load(f"{folder}/{name}.pt", weights_only=True)["OPTIMIZER_STATE"]
    assert all(set(group) == set(mine) for group, mine in zip(state["param_groups"], optimizer.state_dict()["param_groups"]))
    optimizer.load_state_dict(state)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]
    torch.save({"MODEL_STATE": {}, "OPTIMIZER_STATE": optimizer.state_dict()}, f"{folder}/{name}_again.pt")
    parts[1](parts[0](torch.ones(1, 3))).sum().backward()
    optimizer.step()
    assert all(state["step"] == 4 for state in optimizer.state.values())

torch.manual_seed(5)
model = ConvNet(8, 8)
torch.save({"MODEL_STATE": model.state_dict(), "EPOCHS_RUN": 3}, f"{folder}/tutorial.pt")
torch.save({"MODEL_STATE": {"module." + k: v for k, v in model.state_dict().items()}, "EPOCHS_RUN": 3}, f"{folder}/ddp.pt")
torch.save(model.state_dict(), f"{folder}/state_dict.pt")
torch.save(dict(model.named_parameters()) | dict(model.named_buffers()), f"{folder}/parameters.pt")
torch.save({"MODEL_STATE": ConvNet(28, 28).state_dict()}, f"{folder}/mnist.pt")
base = torch.arange(12.0).reshape(3, 4)
torch.save({"transposed": base.t(), "row": base[1], "half": base.bfloat16(), "empty": torch.empty(0, 3), "bool": base > 5, "scalar": torch.tensor(7),
            "none": None, "yes": True, "big": -2**40, "byte": 200, "short": 60000, "pi": 3.25, "nested": {"list": [1, (2, 3)], 4: "four"},
            "size": base.shape, "parameter": torch.nn.Parameter(base)}, f"{folder}/odd.pt")


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


torch.save({"MODEL_STATE": Evil()}, f"{folder}/evil.pt")
torch.save({"MODEL_STATE": model.state_dict()}, f"{folder}/old_format.pt", _use_new_zipfile_serialization=False)
