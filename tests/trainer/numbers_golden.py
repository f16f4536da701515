"""PyTorch's numbers, which clip_grad_test.cpp and amp_test.cpp print alike: one line per case or step, floats in hexadecimal, tensors as the CRC-32 of their bytes.

  numbers_golden.py clip|scaler
"""
import math
import sys
import warnings
import zlib

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_


def crc(tensors):
    checksum = 0
    for tensor in tensors:
        checksum = zlib.crc32(bytes(tensor.detach().contiguous().reshape(-1).view(torch.uint8).tolist()), checksum)
    return f"{checksum:08x}"


def number(value):
    """As C's %a, which Python's hex() is but for infinities and NaN."""
    return "nan" if math.isnan(value) else str(value) if math.isinf(value) else value.hex()


def parameters(kind):
    torch.manual_seed(11)
    shapes = [(3,), (17, 5), (), (4, 3, 2, 2), (1000,), (33, 129), (0, 2), (70000,)]
    result = []
    for i, shape in enumerate(shapes):
        parameter = torch.zeros(shape)
        gradient = torch.randn(shape) * 3
        if kind == "half" or (kind == "mixed" and i % 2):
            parameter, gradient = parameter.bfloat16(), gradient.bfloat16()
        if kind == "mixed" and i % 4 == 0:
            parameter, gradient = parameter.double(), gradient.double()
        if kind == "small":
            gradient = gradient * 1e-4
        if kind == "infinite" and i == 3:
            gradient[1] = math.inf
        if kind == "nan" and i == 3:
            gradient[1] = math.nan
        if kind == "strided" and len(shape) == 2:
            gradient = gradient.t().contiguous().t()
        if i != 4 or kind != "float":  # that one has no gradient
            parameter.grad = gradient
        result.append(parameter)
    return result


def clip():
    for kind in "float", "half", "mixed", "small", "infinite", "nan", "strided":
        for norm_type in 2.0, 1.0, 3.0, 0.5, math.inf:
            for max_norm in 0.1, 1.0, 7.3:
                weights = [p for p in parameters(kind) if norm_type < math.inf or p.numel()]  # no element has no largest one
                norm = clip_grad_norm_(weights, max_norm, norm_type)
                gradients = crc(p.grad for p in weights if p.grad is not None) if kind not in ("infinite", "nan") else ""
                print(kind, norm_type, max_norm, str(norm.dtype), number(norm.item()), gradients)
        for value in 0.1, 1.0:
            weights = parameters(kind)
            clip_grad_value_(weights, value)
            print(kind, "value", value, crc(p.grad for p in weights if p.grad is not None) if kind != "nan" else "")


def scaler():
    """40 steps; a gradient is infinite or NaN at some, one gets there by the scale alone."""
    torch.manual_seed(12)
    weight, other = torch.randn(5, 3, requires_grad=True), torch.randn(4, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight, other], lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_factor=1.7, backoff_factor=0.3, growth_interval=4)
    for step in range(40):
        optimizer.zero_grad()
        inputs = torch.randn(5, 3)
        if step in (3, 4, 17, 30):
            inputs[step % 5, 1] = math.inf
        if step == 22:
            inputs[0, 0] = math.nan
        if step == 33:
            inputs[2, 2] = 1e36  # times the scale: infinite
        loss = (weight * inputs).sum() + (other * other).sum().float()
        scaler.scale(loss).backward()
        if step % 3 == 1:
            scaler.unscale_(optimizer)
            clip_grad_norm_([weight, other], 2.0)
        taken = scaler.step(optimizer)  # None where it was skipped; SGD's step() gives None, too
        scaler.update()
        del taken
        state = scaler.state_dict()
        print(step, number(state["scale"]), state["_growth_tracker"], crc([weight, other]))


{"clip": clip, "scaler": scaler}[sys.argv[1]]()
