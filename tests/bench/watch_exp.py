"""What `ddprun --watch` costs a script that knows nothing of it: all of a job's processor time, a step of half a millisecond, and
Python's start.

  watch.py steps KIND STEPS    microseconds of a step with and without, in turns, in one process. KIND: plain, ddp,
                               and neither, where both are without: what the machine's other work makes of it

As in beats.py a step's figure is the processor time of the quarter of the steps that is least disturbed. A job's is that of all its
processes, also of ddprun.
"""
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile

from beats import VARIABLE, answer, make_page, steps_in_turns
from table import Row, at_most
from tools import BIN, DDPRUN, PYTHON, ROOT, in_turns

SCRIPTS = ROOT / "tests/e2e/watch_scripts"
PACKAGE = BIN.parent / "share/ddprun/python"
JOBS = [("mnist_cnn.py", 1, "5"), ("ddp_basic.py", 2, "1000"), ("accumulate.py", 2, "12")]  # script, ranks, how long
JOB_RUNS, STARTS, STEPS, STEP_RUNS = 5, 60, 1500, 5
MODES = ("off", "see", "act")


def processor_seconds(command, **options):
    """Of the command and all whom it has waited for."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def job(script, ranks, much, mode):
    words = ["--epochs", much] if script == "mnist_cnn.py" else [much]
    environment = {**os.environ, "PYTHON_EXEC": PYTHON, "OMP_NUM_THREADS": "1"}
    return processor_seconds([DDPRUN, f"--nproc-per-node={ranks}", f"--watch={mode}", script, *words], cwd=SCRIPTS, env=environment)


def jobs(samples):
    for script, ranks, much in JOBS:
        seconds = dict(zip(MODES, in_turns(samples(JOB_RUNS), *(lambda mode=mode: job(script, ranks, much, mode) for mode in MODES))))
        for mode in MODES[1:]:
            yield Row(f"processor time of {script}, {ranks} ranks, --watch={mode}", "s", seconds[mode], "off", seconds["off"])


def start(code, watched):
    """Milliseconds of Python's, with the folder of --watch before all others and with nothing there."""
    with contextlib.ExitStack() as stack:
        page = make_page()
        stack.callback(os.close, page)
        folder = PACKAGE / "ddprun/_watch" if watched else stack.enter_context(tempfile.TemporaryDirectory(prefix="ddprun-bench-"))
        environment = {**os.environ, "PYTHONPATH": f"{folder}:{PACKAGE}", VARIABLE: str(page), "DDPRUN_WATCH": "see"}
        return 1000 * processor_seconds([PYTHON, "-c", code], env=environment, pass_fds=[page])


def starts(samples):
    for code, count in ("pass", STARTS), ("import torch", STARTS // 6):
        watched, plain = in_turns(samples(count), lambda: start(code, True), lambda: start(code, False))
        differences = [one - other for one, other in zip(watched, plain)]
        yield Row(f"python -c '{code}', watched", "ms", watched, "plain", plain)
        yield Row(f"what is more of it, python -c '{code}'", "ms", differences, goal=at_most(2, "ms") if code == "pass" else ("", None))


def step_costs(kind, steps):
    """Two models that are alike, of which one was there before --watch began: it has no hooks, and its steps run without the others."""
    import torch
    from torch import distributed, nn
    from torch.optim import optimizer as optimizers
    from torch.utils.data import DataLoader, TensorDataset, dataloader
    torch.set_num_threads(1)
    os.environ[VARIABLE] = str(make_page())
    sys.path.insert(0, str(PACKAGE))
    if kind == "ddp":
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)

    def model():
        net = nn.Sequential(nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 8))
        return nn.parallel.DistributedDataParallel(net) if kind == "ddp" else net
    data = TensorDataset(torch.randn(16 * (steps + 4), 192))
    places = [dataloader._SingleProcessDataLoaderIter.__dict__, optimizers._global_optimizer_post_hooks]
    plain = model()
    plain_next = places[0]["_next_data"]
    from ddprun import _pytorch, channel
    _pytorch.watch_all("see")
    models = [plain, model()]
    optimizer = [torch.optim.SGD(each.parameters(), 0.01) for each in models]

    def train(which, batches):
        optimizer[which].zero_grad()
        batch, = next(batches)
        models[which](batch).square().mean().backward()
        optimizer[which].step()

    streams = [iter(DataLoader(data, 16)) for _ in models]
    for _ in range(4):
        train(1, streams[1])
    assert channel._watch.has_model and channel._words[channel._STEP] == 4
    hooks, watched_next = dict(places[1]), places[0]["_next_data"]

    if kind == "neither":
        models[1]._forward_pre_hooks.clear()

    def step(which):
        watched = which == 1 and kind != "neither"
        places[1].clear()
        if watched:
            places[1].update(hooks)
        dataloader._SingleProcessDataLoaderIter._next_data = watched_next if watched else plain_next
        train(which, streams[which])
    import os as _o; E=_o.environ.get("EXP","")
    if "F" in E:
        h=list(models[1]._forward_pre_hooks)[0]; models[1]._forward_pre_hooks[h]=lambda m,i: None
    if "f" in E: models[1]._forward_pre_hooks.clear()
    if "O" in E: hooks={k:(lambda *a: None) for k in hooks}
    if "o" in E: hooks={}
    if "n" in E: watched_next=plain_next
    costs = steps_in_turns(steps, lambda _: step(0), lambda _: step(1))

    return costs


def steps(samples):
    for kind in "neither", "plain", "ddp":
        seen = [answer([PYTHON, __file__, "steps", kind, STEPS]) for _ in range(samples(STEP_RUNS))]
        yield Row(f"a step of a {kind} model, watched", "us", [one["reporting"] for one in seen], "plain", [one["plain"] for one in seen])
        goal = at_most(10, "us") if kind != "neither" else ("", None)  # 1 % of a step of 1 ms
        yield Row(f"what is more of it, {kind}", "us", [one["reporting"] - one["plain"] for one in seen], goal=goal)


def bench(samples):
    yield from starts(samples)
    yield from steps(samples)
    yield from jobs(samples)


if __name__ == "__main__":
    print(json.dumps(step_costs(sys.argv[2], int(sys.argv[3]))))
