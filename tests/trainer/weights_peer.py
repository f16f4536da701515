"""Python's side of weights_test.cpp: `read` checks what publish() left in FOLDER as a user of PyTorch and of safetensors would; `write` leaves files there for load_weights().

`convert` runs the commands of FOLDER/commands, one a line, as a shell would, but in this process, since importing torch takes longest.

  weights_peer.py read|write|convert FOLDER
"""
import argparse
import collections
import io
import json
import os
import pickle
import runpy
import shlex
import struct
import sys
import tarfile
import warnings
import zipfile

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
warnings.filterwarnings("ignore", message=".torch.jit", category=FutureWarning)
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

    @staticmethod
    def of(state):
        net = Net()
        net.load_state_dict(state)
        return net


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
    write_other_forms(folder)
    write_convertible(folder)


# All that torch.load reads, or has read, and load_weights(), too.
def write_other_forms(folder):
    torch.manual_seed(5)
    net = Net()
    state = net.state_dict()
    net.register_buffer("scratch", torch.ones(3), persistent=False)
    compiled = {"_orig_mod.module." + name: tensor for name, tensor in state.items()}
    optimizer = torch.optim.Adam(net.parameters())
    others = {"optimizer": optimizer.state_dict(), "args": argparse.Namespace(lr=1), "type": torch.float16, (1, 2): {3}, "best": collections.defaultdict(list)}
    torch.save(compiled, f"{folder}/compiled.pt")
    torch.save(state, f"{folder}/legacy.pt", _use_new_zipfile_serialization=False)
    torch.save(net, f"{folder}/whole.pt")
    torch.save(net, f"{folder}/whole_legacy.pt", _use_new_zipfile_serialization=False)
    torch.save({"module": state, **others}, f"{folder}/deepspeed.pt", pickle_protocol=4)
    torch.save({"state_dict": {"model." + name: tensor for name, tensor in state.items()}, "pytorch-lightning_version": "2.6", **others}, f"{folder}/last.ckpt")
    torch.save({"ema": net.half().float(), "model": Net.of(state), **others}, f"{folder}/modules.pt")
    torch.jit.save(torch.jit.script(Net.of(state)), f"{folder}/script.pt")
    for ending, stem, save in ("safetensors", "model", save_safetensors), ("bin", "pytorch_model", torch.save):
        os.mkdir(f"{folder}/{stem}")
        files = {}
        for part in range(2):
            file = f"{stem}-0000{part + 1}-of-00002.{ending}"
            tensors = dict(list(state.items())[part::2])
            save(tensors, f"{folder}/{stem}/{file}")
            files |= dict.fromkeys(tensors, file)
        with open(f"{folder}/{stem}/{stem}.{ending}.index.json", "w") as index:
            json.dump({"metadata": {}, "weight_map": files}, index)


# What load_weights() answers with a command.
def write_convertible(folder):
    torch.manual_seed(5)
    state = Net().state_dict()
    from torch.distributed import checkpoint  # takes long to import

    checkpoint.save({"model": state}, checkpoint_id=f"{folder}/dcp", no_dist=True)
    torch.save({"actor": state, "critic": state}, f"{folder}/two.pt")
    with open(f"{folder}/plain.pkl", "wb") as file:
        pickle.dump(state, file)
    write_tar(state, f"{folder}/tar.pt")
    torch.save(state, f"{folder}/stored.pt")
    with zipfile.ZipFile(f"{folder}/stored.pt") as stored, zipfile.ZipFile(f"{folder}/compressed.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in stored.namelist():
            archive.writestr(name, stored.read(name))


class Reference:
    def __init__(self, key):
        self.key = key


# As PyTorch 0.1 has written it: see legacy_load in torch/serialization.py.
def write_tar(state, path):
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return value.key if isinstance(value, Reference) else None

    parts = {name: io.BytesIO() for name in ("storages", "tensors", "pickle")}
    storages, tensors = parts["storages"], parts["tensors"]
    pickle.dump(len(state), storages, 2)
    pickle.dump(len(state), tensors, 2)
    references = {}
    for number, (name, tensor) in enumerate(state.items()):
        tensor = tensor.contiguous()
        kind = getattr(torch, {"float32": "Float", "float64": "Double", "int64": "Long", "bfloat16": "BFloat16", "bool": "Bool"}[str(tensor.dtype)[6:]] + "Storage")
        pickle.dump((number, "cpu", kind), storages, 2)
        storages.write(struct.pack("<q", tensor.numel()) + bytes(tensor.flatten().view(torch.uint8).tolist()))
        references[name] = Reference(1000 + number)
        pickle.dump((1000 + number, number, torch.FloatTensor), tensors, 2)
        tensors.write(struct.pack(f"<ii{2 * tensor.dim() + 1}q", tensor.dim(), 0, *tensor.shape, *tensor.stride(), 0))
    pickle.dump([], storages, 2)
    Pickler(parts["pickle"], 2).dump(collections.OrderedDict(references))
    with tarfile.open(path, "w") as archive:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = content.tell()
            content.seek(0)
            archive.addfile(info, content)


def convert(folder):
    with open(f"{folder}/commands") as commands:
        for python, option, what, *arguments in map(shlex.split, commands):
            assert python == "python" and option in ("-c", "-m")
            if option == "-c":
                exec(what, {})
            else:
                sys.argv = [what, *arguments]
                runpy.run_module(what, run_name="__main__")


{"read": read, "write": write, "convert": convert}[sys.argv[1]](sys.argv[2])
