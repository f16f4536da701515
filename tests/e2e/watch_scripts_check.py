#!/usr/bin/env python3
"""Runs scripts of watch_scripts/ without and with --watch, compares what comes out, and checks what `ddprun status` tells meanwhile.

  watch_scripts_check.py DDPRUN [--modes see,act] [NAME ...]

Every script prints its losses and a hash of its weights: what each rank writes to stdout and stderr, and the exit code, must be the
same in each mode. In the modes that watch, status has to show the steps, the pace and the phases of the table below. The scripts run
under PYTHON_EXEC, else under the Python of this check.
"""
from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from prefork_scripts_check import chosen, environment, without_varying, written_by_ranks, written_files

SCRIPTS = Path(__file__).resolve().parent / "watch_scripts"
LIMIT_S = 300
ALSO_VARYING = [(r"\d+(\.\d+)?it/s", "Nit/s"), (r"TIME,\d+", "TIME"), (r"(W\d{4} TIME) \d+", r"\1 N")]  # tqdm, loggers, and LibTorch's
LOOK_S = 0.1


@dataclass
class Script:
    """{folder} in its words is a new folder for each run."""

    name: str
    words: str  # program and arguments
    steps: int  # as status shows them at the end; 0: nothing is reported
    parts: str = ""  # of these status shows time or the activity: load compute wait evaluate save
    ranks: int = 2
    code: int = 0
    needs: str = ""  # a module that setup.sh installs only with --bench, or not at all
    env: dict[str, str] = field(default_factory=dict)


TABLE = [
    Script("mnist_cnn", "mnist_cnn.py --save-model={folder}/mnist.pt", 120, "load compute evaluate", ranks=1),
    Script("ddp_basic", "ddp_basic.py", 600, "compute wait"),
    Script("trainer_snapshot", "trainer_snapshot.py 8 2 --snapshot={folder}/snapshot.pt", 512, "load compute wait"),
    Script("trainer_restarts", "--max-restarts=1 trainer_snapshot.py 6 2 --snapshot={folder}/snapshot.pt --fail-at=3", 384,
           "load compute wait", ranks=1),
    Script("image_classes", "image_classes.py", 20, "load compute wait evaluate"),
    Script("word_lm", "word_lm.py", 0, ranks=1),
    Script("dcgan", "dcgan.py", 120, "compute wait"),
    Script("actor_critic", "actor_critic.py", 60, "compute", ranks=1),
    Script("vae", "vae.py", 360, "load compute", ranks=1),
    Script("sequence_lbfgs", "sequence_lbfgs.py", 15, "compute evaluate", ranks=1),
    Script("fsdp2", "fsdp2.py", 60, "compute"),
    Script("fsdp1", "fsdp1.py", 40, "compute"),
    Script("tensor_parallel", "tensor_parallel.py", 100, "compute"),
    Script("pipeline", "pipeline.py", 80, "compute"),
    Script("accumulate", "accumulate.py", 128, "load compute wait"),
    Script("mixed_precision", "mixed_precision.py", 160, "compute wait"),
    Script("compiled", "compiled.py --backend=eager --steps=100", 200, "load compute evaluate", ranks=1),
    Script("compiled_inductor", "compiled.py", 60, "compute wait evaluate"),
    Script("zero_optimizer", "zero_optimizer.py", 100, "compute wait"),
    Script("join_uneven", "join_uneven.py", 220, "compute wait"),
    Script("checkpointing", "checkpointing.py", 60, "compute wait"),
    Script("ema_swa", "ema_swa.py", 512, "load compute", ranks=1),
    Script("accelerate", "accelerate_train.py", 96, "load compute wait", needs="accelerate"),
    Script("lightning", "lightning_train.py", 192, "load compute evaluate", ranks=1, needs="pytorch_lightning"),
    Script("hf_trainer", "hf_trainer.py", 40, "load compute wait", needs="transformers"),
    Script("deepspeed", "deepspeed_train.py", 100, "compute", needs="deepspeed"),
    Script("module", "-m textpkg.train", 300, "load compute wait"),
    Script("pools", "pools.py", 192, "load compute wait"),
    Script("infer", "infer.py", 0),
    Script("own_optimizer", "own_optimizer.py", 300, "compute wait"),
    Script("functional", "functional.py", 0, ranks=1),
    Script("step_in_backward", "step_in_backward.py", 100, "compute", ranks=1),
    Script("own_processes", "own_processes.py", 0, ranks=1),
    Script("exports", "exports.py", 16, "load compute", ranks=1),
    Script("mistakes", "mistakes.py", 40, "load compute", ranks=1),
    Script("rpc_server", "rpc_server.py", 0),
]


class Looks:
    """Asks `ddprun status` about a job while it runs."""

    def __init__(self, ddprun: Path, job: str):
        self.command, self.over = [ddprun, "status", job, "--json"], threading.Event()
        self.steps, self.pace, self.parts, self.reporting = 0, 0.0, set(), 0
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(LOOK_S):
            told = subprocess.run(self.command, capture_output=True, text=True)
            if told.returncode == 0 and (live := json.loads(told.stdout).get("live")):
                self.learn(live)

    def learn(self, live):
        self.steps = max(self.steps, live["step"] or 0)
        self.pace = live["steps_per_second"] or self.pace
        self.parts.add(live["activity"])
        self.reporting = max(self.reporting, sum(rank["step"] is not None or rank["compute_seconds"] > 0 for rank in live["ranks"]))
        for rank in live["ranks"]:
            self.parts |= {rank["activity"], *(part for part in ("load", "compute", "wait") if rank[part + "_seconds"] > 0)}

    def end(self):
        self.over.set()
        self.thread.join()


@dataclass
class Outcome:
    lines: list[str]
    took_s: float
    looks: Looks
    last_step: int

    def text(self):
        parts = [part for part in ("load", "compute", "wait", "evaluate", "save") if part in self.looks.parts]
        return f"{self.last_step or self.looks.steps} steps, {self.looks.pace:.3g}/s, {' '.join(parts) or 'no phases'}"


def last_step(events: Path) -> int:
    """The job's own account of it: status may be asked a moment too early."""
    steps = [0]
    for line in events.read_text().splitlines():
        told = json.loads(line)["metadata"]
        if told["state"] == "PROGRESS":
            steps.append(int(told["step"]))
    return steps[-1]


def without_more(line: str) -> str:
    for pattern, replacement in ALSO_VARYING:
        line = re.sub(pattern, replacement, line)
    return line


def outcome(ddprun: Path, mode: str, script: Script) -> Outcome:
    with tempfile.TemporaryDirectory() as folder:
        own = [word.replace("{folder}", folder) for word in shlex.split(script.words)]
        job, events = f"watched-{os.getpid()}-{mode}", Path(folder, "events")
        words = [ddprun, f"--nproc-per-node={script.ranks}", f"--rdzv-id={job}", "--max-restarts=0", f"--watch={mode}",
                 f"--event-log-handler=file:{events}", f"--log-dir={folder}/logs", "--redirects=3", *own]
        begin = time.monotonic()
        looks = Looks(ddprun, job)
        try:
            done = subprocess.run(words, cwd=SCRIPTS, env={"OMP_NUM_THREADS": "1"} | environment(script), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, timeout=LIMIT_S)
            written = done.stdout.splitlines() + written_files(folder) + written_by_ranks(done.stderr)
            lines = [f"exit code {done.returncode}", *map(without_more, without_varying(written, folder))]
        except subprocess.TimeoutExpired as late:
            lines = [f"still runs after {LIMIT_S} s", *(late.stdout or b"").decode().splitlines()]
        finally:
            looks.end()
        return Outcome(lines, time.monotonic() - begin, looks, last_step(events))


def missing(script: Script, seen: Outcome) -> list[str]:
    """What status should have told."""
    looks = seen.looks
    if script.steps == 0:
        return [f"{seen.text()} of a script that reports nothing"] if looks.reporting or seen.last_step else []
    lacks = [f"{part} is never shown" for part in script.parts.split() if part not in looks.parts]
    if seen.last_step != script.steps:
        lacks.append(f"{seen.last_step} steps instead of {script.steps}")
    if looks.steps == 0 or looks.pace == 0:
        lacks.append(f"status shows {looks.steps} steps, and {looks.pace} per second")
    if looks.reporting < script.ranks:
        lacks.append(f"only {looks.reporting} of {script.ranks} ranks report")
    return lacks


def check(ddprun: Path, modes: list[str], script: Script, show: bool) -> bool:
    with ThreadPoolExecutor(2) as pool:
        without, *watched = pool.map(lambda mode: outcome(ddprun, mode, script), ["off", *modes])
    failed = without.lines[0] != f"exit code {script.code}"  # equal failures prove nothing
    print(f"{'FAILED ' if failed else 'off    '} {script.name}, {without.took_s:.1f} s")
    if show or failed:
        print(*(f"    {line}" for line in without.lines), sep="\n")
    good = not failed
    for mode, seen in zip(modes, watched):
        lacks = missing(script, seen)
        same = without.lines == seen.lines
        print(f"{'DIFFERS' if not same else 'LACKS  ' if lacks else 'ok     '} {script.name} {mode}, {seen.took_s:.1f} s: {seen.text()}")
        for line in difflib.unified_diff(without.lines, seen.lines, "off", mode, n=1, lineterm=""):
            print(f"    {line}")
        print(*(f"    {line}\n" for line in lacks), sep="", end="", flush=True)
        good &= same and not lacks
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ddprun", type=Path)
    parser.add_argument("--modes", default="see,act", help="of --watch (default see,act)")
    parser.add_argument("--show", action="store_true", help="print what the run without --watch gave, too")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(script.name for script in TABLE))
    args = parser.parse_intermixed_args()
    modes = args.modes.split(",")
    passed = [check(args.ddprun.resolve(), modes, script, args.show) for script in chosen(TABLE, args.names, parser)]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
