"""PyTorch's numbers, which clip_grad_test.cpp and optimizers_test.cpp print alike: one line per case or step, floats in hexadecimal, tensors as the CRC-32 of their bytes."""
import ctypes
import math
import warnings
import zlib

warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_


def crc(tensors):
    checksum = 0
    for tensor in tensors:
        own = tensor.detach().contiguous()
        checksum = zlib.crc32(ctypes.string_at(own.data_ptr(), own.nbytes) if own.nbytes else b"", checksum)
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


def scaler(make=lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9)):
    """40 steps; a gradient is infinite or NaN at some, one gets there by the scale alone."""
    torch.manual_seed(12)
    weight, other = torch.randn(5, 3, requires_grad=True), torch.randn(4, dtype=torch.float64, requires_grad=True)
    optimizer = make([weight, other])
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
        scaler.step(optimizer)
        scaler.update()
        state = scaler.state_dict()
        print(step, number(state["scale"]), state["_growth_tracker"], crc([weight, other]))


def fused_scaler():
    for make in (lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, fused=True),
                 lambda weights: torch.optim.Adam(weights, lr=0.1, amsgrad=True, fused=True),
                 lambda weights: torch.optim.AdamW(weights, lr=0.1, fused=True)):
        scaler(make)


OPTIMIZERS = {  # settings of the first group; the second has other ones
    "sgd": (torch.optim.SGD, {}),
    "sgd decay": (torch.optim.SGD, {"weight_decay": 0.1}),
    "sgd momentum": (torch.optim.SGD, {"momentum": 0.9, "dampening": 0.3}),
    "sgd all": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    "sgd nesterov": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {}),
    "adam all": (torch.optim.Adam, {"weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.95), "eps": 1e-6}),
    "adamw": (torch.optim.AdamW, {}),
    "adamw all": (torch.optim.AdamW, {"weight_decay": 0.1, "amsgrad": True, "betas": (0.8, 0.95), "eps": 1e-6}),
}
MODES = {"single": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}
STEPS = 7


def modes_of(name):
    """LibTorch's own loop over the parameters rounds Adam's mean of the gradients otherwise than Python's, and bfloat16."""
    return [mode for mode in MODES if mode != "single" or name.startswith("sgd")]


def weights_to_optimize(*modes):
    torch.manual_seed(21)
    shapes = [(3,), (17, 5), (), (8, 3, 5, 5), (1001,), (33, 129), (0, 2), (9001,), (7, 9), (6, 1, 3, 3)]
    weights = [torch.randn(shape) for shape in shapes]
    weights[3] = weights[3].to(memory_format=torch.channels_last)
    weights[4] = weights[4].double()
    # Before 2.15 the fused SGD leaves bfloat16 as it is where there is momentum.
    old = tuple(int(number) for number in torch.__version__.split(".")[:2]) < (2, 15)
    if "single" not in modes and not (old and "fused" in modes):
        weights[5] = weights[5].bfloat16()
    return [weight.requires_grad_() for weight in weights]


def make_optimizer(name, mode, weights):
    kind, settings = OPTIMIZERS[name]
    second = {"lr": 0.02, **({"weight_decay": 0.3} if "weight_decay" in settings else {})}
    return kind([{"params": weights[:6]}, {"params": weights[6:], **second}], lr=0.05, **settings, **MODES[mode])


def give_gradients(weights, step, sometimes):
    """One weight never has a gradient; with `sometimes` others have none at some steps."""
    torch.manual_seed(1000 + step)
    for i, weight in enumerate(weights):
        weight.grad = torch.randn(weight.shape).to(weight.dtype)
        if weight.dim() == 4:
            weight.grad = weight.grad.to(memory_format=torch.channels_last)
        if i == 8 or (sometimes and (step + i) % 4 == 0):
            weight.grad = None


def run_steps(what, optimizer, weights, steps, sometimes):
    for step in steps:
        give_gradients(weights, step, sometimes)
        optimizer.step()
        print(what, step, crc(weights))


def optimizers():
    for name in OPTIMIZERS:
        for mode in modes_of(name):
            weights = weights_to_optimize(mode)
            # Python's fused SGD needs all momentum buffers or none.
            run_steps(f"{name} {mode}", make_optimizer(name, mode, weights), weights, range(STEPS),
                      mode != "fused" or "momentum" not in OPTIMIZERS[name][1])


def resumed():
    """The state of each mode goes on in each."""
    for name in OPTIMIZERS:
        for mode in modes_of(name):
            for other in modes_of(name):
                weights = weights_to_optimize(mode, other)
                first, second = make_optimizer(name, mode, weights), make_optimizer(name, other, weights)
                run_steps(f"{name} {mode} {other}", first, weights, range(3), False)
                state = first.state_dict()
                for group in state["param_groups"]:
                    group.update({"foreach": None, "fused": None, **MODES[other]})
                second.load_state_dict(state)
                run_steps(f"{name} {mode} {other}", second, weights, range(3, 6), False)


for task in clip, scaler, fused_scaler, optimizers, resumed:
    print("==", task.__name__)
    task()
