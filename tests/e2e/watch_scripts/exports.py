"""What is done to a model once it is trained, plain and in DistributedDataParallel: compiled, exported, copied, saved, quantized."""
import copy
import io
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from weights import digest

warnings.simplefilter("ignore")


def save_and_load(net):
    buffer = io.BytesIO()
    torch.save(net, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


def attempts(net, x):
    yield "script", lambda: torch.jit.script(net)(x)
    yield "trace", lambda: torch.jit.trace(net, x)(x)
    yield "export", lambda: torch.export.export(net, (x,)).module()(x)
    yield "fx", lambda: torch.fx.symbolic_trace(net)(x)
    yield "compile", lambda: torch.compile(net, backend="eager", fullgraph=True)(x)
    yield "copy", lambda: copy.deepcopy(net)(x)
    yield "save", lambda: save_and_load(net)(x)
    yield "quantize", lambda: torch.ao.quantization.quantize_dynamic(net, {nn.Linear})(x)
    yield "functional", lambda: torch.func.functional_call(net, dict(net.named_parameters()), (x,))
    yield "vmap", lambda: torch.vmap(net)(x)
    yield "jacobian", lambda: torch.func.jacrev(net)(x).sum()
    yield "share", lambda: net.share_memory()(x)


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(34)
    x = torch.ones(2, 4)
    for wrap in lambda net: net, DDP:
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        model = wrap(net)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(8):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        net.eval()
        for name, attempt in attempts(net, x):
            print(type(model).__name__, name, attempt().sum().item())
        print("weights", digest(model))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
