"""Python's side of weights_test.cpp: `read` checks what publish() left in FOLDER as a user of PyTorch and of safetensors would; `write` leaves files there for load_weights().

  weights_peer.py read|write FOLDER
"""
import sys
import warnings

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import safetensors
import safetensors.torch
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.body = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 5))
        self.tied = self.body[0].weight
        self.register_buffer("brief", torch.randn(3).bfloat16())
        self.register_buffer("count", torch.arange(3))
        self.register_buffer("mask", torch.tensor([True, False]))
        self.register_buffer("scale", torch.tensor(0.1, dtype=torch.float64))
        self.register_buffer("part", torch.randn(100)[10:13])
        self.register_buffer("empty", torch.zeros(0, 2))


def same(ours, theirs):
    assert ours.keys() == theirs.keys(), (ours.keys(), theirs.keys())
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype and torch.equal(ours[name], tensor), name


def save_safetensors(tensors, path):
    # safetensors.torch.save_file wants numpy; this is what it calls.
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    specs = {name: safetensors.TensorSpec(dtype=str(t.dtype).removeprefix("torch."), shape=list(t.shape), data_ptr=t.data_ptr(), data_len=t.nbytes) for name, t in tensors.items()}
    safetensors.serialize_file(specs, path, metadata={"format": "pt"})


def read(folder):
    torch.manual_seed(5)
    expected = Net().state_dict()
    ours = torch.load(f"{folder}/ours.pt", weights_only=True)
    assert list(ours) == list(expected), "names come in PyTorch's order"
    same(ours, expected)
    assert ours["part"].untyped_storage().nbytes() == 12, "of a part of a storage, only the part is written"
    same(safetensors.torch.load_file(f"{folder}/ours.safetensors"), expected)
    with safetensors.safe_open(f"{folder}/ours.safetensors", framework="pt") as file:
        assert file.metadata() == {"format": "pt"}
    for state in ours, safetensors.torch.load_file(f"{folder}/ours.safetensors"):
        torch.manual_seed(6)
        net = Net()
        net.load_state_dict(state)
        same(net.state_dict(), expected)
    others = safetensors.torch.load_file(f"{folder}/types.safetensors")
    for name in "uint64 uint32 uint16 uint8 int16 int8 float16 float8_e4m3fn float8_e5m2 complex64".split():
        assert str(others[name].dtype) == f"torch.{name}" and others[name].to(torch.complex64).tolist() == [1, 2], name


def write(folder):
    torch.manual_seed(5)
    state = Net().state_dict()
    of_ddp = {"module." + name: tensor for name, tensor in state.items()}
    torch.save(state, f"{folder}/bare.pt")
    torch.save({"MODEL_STATE": of_ddp, "EPOCHS_RUN": 3}, f"{folder}/tutorial.pt")
    torch.save({"epoch": 3, "model_state_dict": state, "loss": 0.5}, f"{folder}/recipe.pt")
    torch.save({"epoch": 3, "state_dict": of_ddp}, f"{folder}/imagenet.pt")
    save_safetensors(state, f"{folder}/theirs.safetensors")
    save_safetensors(of_ddp, f"{folder}/ddp.safetensors")
    without_tie = {name: tensor for name, tensor in state.items() if name != "tied"}
    save_safetensors(without_tie, f"{folder}/one_name.safetensors")  # as safetensors.torch.save_model does
    save_safetensors({name: tensor.double() if tensor.is_floating_point() else tensor for name, tensor in state.items()}, f"{folder}/wide.safetensors")
    torch.save({"epoch": 3, "lr": 0.5}, f"{folder}/nothing.pt")


{"read": read, "write": write}[sys.argv[1]](sys.argv[2])
